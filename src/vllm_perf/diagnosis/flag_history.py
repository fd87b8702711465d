# SPDX-License-Identifier: Apache-2.0
"""What became of vLLM's flags that were removed or renamed, and which came late."""

# Flag -> what to do instead, checked against the flags of 0.32.
REPLACED = {
    "--disable-log-requests": "drop it: requests are not logged unless --enable-log-requests is given",
    "--enable-reasoning": "drop it: --reasoning-parser alone switches reasoning on",
    "--guided-decoding-backend": "use --structured-outputs-config with a backend",
    "--num-scheduler-steps": "drop it: multi-step scheduling went with the V0 engine",
    "--multi-step-stream-outputs": "drop it: multi-step scheduling went with the V0 engine",
    "--use-v2-block-manager": "drop it: there is only one block manager now",
    "--swap-space": "drop it: the V1 engine recomputes instead of swapping",
    "--preemption-mode": "drop it: the V1 engine always recomputes",
    "--scheduler-delay-factor": "drop it: it went with the V0 engine",
    "--num-lookahead-slots": "drop it: it went with the V0 engine",
    "--worker-use-ray": "use --distributed-executor-backend ray",
    "--engine-use-ray": "use --distributed-executor-backend ray",
    "--max-context-len-to-capture": "use --compilation-config (cudagraph capture sizes)",
    "--max-seq-len-to-capture": "use --compilation-config (cudagraph capture sizes)",
    "--cuda-graph-sizes": "use --compilation-config (cudagraph capture sizes)",
    "--speculative-model": "use --speculative-config",
    "--num-speculative-tokens": "use --speculative-config",
    "--rope-scaling": "use --hf-overrides",
    "--rope-theta": "use --hf-overrides",
    "--task": "use --runner and --convert",
    "--disable-mm-preprocessor-cache": "use --mm-processor-cache-gb 0",
    "--disable-async-output-proc": "drop it: use --no-async-scheduling",
    "--override-neuron-config": "use --additional-config",
    "--disable-frontend-multiprocessing": "drop it: VLLM_ENABLE_V1_MULTIPROCESSING=0 does the like",
}

# Flags that older versions lack -> what those take instead.
NEWER = {
    "--attention-backend": "older versions take the environment variable VLLM_ATTENTION_BACKEND instead",
    "--no-enable-prefix-caching": "older versions cache prefixes only where --enable-prefix-caching is given",
    "--enable-log-requests": "older versions log requests by default; --disable-log-requests switches it off",
    "--kv-cache-memory-bytes": "use --gpu-memory-utilization",
    "--reasoning-parser": "upgrade vLLM: older versions parse no reasoning",
    "--structured-outputs-config": "older versions take --guided-decoding-backend",
    "--speculative-config": "older versions take --speculative-model and --num-speculative-tokens",
}
