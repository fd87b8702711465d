# SPDX-License-Identifier: Apache-2.0
"""A process tree shaped like vLLM's: an API server and an engine core that outlives it. No pytest here.

Usage: python fake_engine.py MODE PORT. Modes: serve, exit0, exit1, unready (503 for ever), silent (never
listens), stubborn (ignores TERM), dead-core (healthy, but no token ever comes).
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = sys.argv[1]
SLEEPER = "import time\nwhile True: time.sleep(0.1)"


class Handler(BaseHTTPRequestHandler):
    """Answer as the mode says."""

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def answer(self, status: int, body: object) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        """Answer /health and /v1/models."""
        if MODE == "unready":
            self.answer(503, {})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "m", "max_model_len": 64}]})
        else:
            self.answer(200, {})

    def do_POST(self) -> None:
        """Complete one token, or never."""
        if MODE == "dead-core":
            time.sleep(600)
        self.answer(200, {"choices": [{"text": "a"}]})


def main() -> None:
    """Play one mode."""
    print("INFO fake engine starting", flush=True)
    if MODE.startswith("exit"):
        print("ERROR something broke", flush=True)
        sys.exit(int(MODE[4:]))
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    core = subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True, env=os.environ)
    print(f"core {core.pid}", flush=True)
    if MODE == "silent":
        while True:
            time.sleep(0.1)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()


main()
