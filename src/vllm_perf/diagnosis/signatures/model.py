# SPDX-License-Identifier: Apache-2.0
"""Failures of the model itself: not there, not allowed, not supported, too short for the asked length."""

from vllm_perf.diagnosis.signatures.signature import Signature
from vllm_perf.spec.category import Category

_TYPO = "check the spelling of --model; a local folder must exist and hold config.json"

SIGNATURES = (
    Signature(
        name="gated model",
        category=Category.MODEL_DOWNLOAD_AUTH,
        pattern=r"(?:You are trying to access a gated repo|is a gated repository|Cannot access gated"
        r" repo for url|GatedRepoError"
        r"|Access to model \S{1,200} is restricted)",
        cause="the model is gated and this machine's Hugging Face token may not download it (not the "
        "server's API key)",
        remedy="accept the model's terms on its page, then set HF_TOKEN where the server is started",
        versions="vllm#9255; source of transformers 5",
    ),
    Signature(
        name="no such folder or id",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"(?:HFValidationError: Repo id must be [^:]*: ?|Incorrect path_or_model_id: ?"
        r"|Invalid repository ID or local directory specified: ?)'(?P<model>[^'\n]+)'",
        cause="'{model}' is neither an existing folder nor a model id",
        remedy=_TYPO,
        versions="0.32 on the CPU",
    ),
    Signature(
        name="not a folder and not on the hub",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"(?P<model>\S{1,200}) is not a local folder (?:and is not a valid model identifier|or a"
        r" valid repository name)",
        cause="'{model}' is neither an existing folder nor a model on the hub",
        remedy=_TYPO + "; a private model needs HF_TOKEN",
        versions="source of transformers 5",
    ),
    Signature(
        name="repository not found",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"Repository Not Found for url: (?P<url>\S+?)\.?(?:\s|$)",
        cause="the hub knows no such model: {url}",
        remedy=_TYPO + "; a private model needs HF_TOKEN",
        versions="huggingface_hub's own text (source)",
    ),
    Signature(
        name="offline and not in the cache",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"(?:Cannot find an appropriate cached snapshot folder[\s\S]{0,120}outgoing traffic"
        r" has been disabled"
        r"|Cannot reach \S{1,200}: offline mode is enabled|OfflineModeIsEnabled)",
        cause="the model is not in this machine's cache, and downloads are switched off (HF_HUB_OFFLINE)",
        remedy="download it first, give a local folder as --model, or unset HF_HUB_OFFLINE",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="hub not reachable",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"(?:We couldn't connect to '(?P<hub>[^'\n]+)' to load"
        r"|An error happened while trying to locate the file on the Hub and we cannot find)",
        cause="the model is not in this machine's cache, and the hub cannot be reached",
        remedy="check the network (HF_ENDPOINT, proxies), or give a local folder as --model",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="folder without its files",
        category=Category.MODEL_NOT_AVAILABLE,
        pattern=r"(?:(?P<model>\S{1,200}) does not appear to have a file named (?P<file>\S+?)\.(?:\s|$)"
        r"|No supported config format found in (?P<empty>\S+)"
        r"|Cannot find any model weights with (?P<folder>\S+)"
        r"|(?:SafetensorError|Error while deserializing header): ?(?P<damage>[^\n]{3,80}))",
        cause="the model's folder lacks its files, or they are damaged",
        remedy="download the model again and completely (a Git LFS pointer is no weights file)",
        versions="source of transformers 5 and of vLLM 0.32",
    ),
    Signature(
        name="architecture not supported",
        category=Category.MODEL_UNSUPPORTED,
        pattern=r"(?:Model architectures? \[?'?(?P<architecture>[\w', ]+?)'?\]? (?:are|is) not"
        r" supported for now"
        r"|(?P<name>\w{1,100}) has no vLLM implementation"
        r"|model type `(?P<type>[\w-]+)` but Transformers does not recognize this architecture)",
        cause="this vLLM does not support the model's architecture",
        remedy="upgrade vLLM and transformers, or serve another model",
        versions="source of 0.32",
    ),
    Signature(
        name="architecture cannot be loaded",
        category=Category.MODEL_UNSUPPORTED,
        pattern=r"Model architectures? \['(?P<architecture>[\w', ]+?)'\] failed to be inspected",
        cause="this vLLM knows the model's architecture {architecture}, but its code for it fails to load",
        remedy="read the error above that line (often a missing package); upgrade vLLM with transformers",
        versions="source of 0.32",
        weak=True,
    ),
    Signature(
        name="remote code not trusted",
        category=Category.MODEL_UNSUPPORTED,
        pattern=r"(?:contains custom code which must be executed to correctly load|requires you to"
        r" execute the"
        r" (?:configuration|model|modeling) file in that repo)",
        cause="the model brings its own code, which is not run without permission",
        remedy="read that code, then add --trust-remote-code",
        versions="transformers' own text (source)",
    ),
    Signature(
        name="longer than the model allows",
        category=Category.MAX_LEN_TOO_LARGE,
        pattern=r"User-specified max_model_len \((?P<max_model_len>\d+)\) is greater than the derived"
        r" max_model_len"
        r" \((?:[\w.]*=)?(?P<fitting_len>\d+)",
        cause="--max-model-len {max_model_len} is more than the {fitting_len} tokens that the model "
        "was made for",
        remedy="use --max-model-len {fitting_len} or fewer",
        versions="0.32 on the CPU",
    ),
)
