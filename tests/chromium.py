"""A headless Chromium for tests that look at pages."""

import json
import subprocess
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import websocket

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")


class Browser:
    """A headless Chromium, spoken to over its DevTools socket. It finds no host but this one."""

    def __init__(self, program, profile):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        flags += ["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
        flags += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen([program, *flags], stdout=silent, stderr=silent)
        address, patience = profile / "DevToolsActivePort", time.monotonic() + 60
        while not address.exists() or len(address.read_text().split()) < 2:
            assert time.monotonic() < patience, f"{program} did not start within a minute"
            time.sleep(0.05)
        port, path = address.read_text().split()
        address = f"ws://127.0.0.1:{port}{path}"
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.calls, self.events = 0, []
        self.page = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.page = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send one command and return its result; what happens meanwhile is kept in `events`."""
        self.calls += 1
        session = {"sessionId": self.page} if self.page else {}
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters, **session}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.calls:
            self.events.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, page, width=390, query="", dark=False):
        """Load a file in a window as wide as a phone, or `width`; the console and the log start empty."""
        assert page.exists(), f"{page} was not built"
        self.events = []
        self.call("Log.clear")
        window = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.as_uri() + query)
        while not self.happened("Page.loadEventFired"):
            self.events.append(json.loads(self.socket.recv()))

    def happened(self, method):
        """The parameters of the events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def ask(self, script):
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key):
        """Press and release a key of the keyboard: "Enter", "Tab", " "."""
        text = {"text": {"Enter": "\r"}.get(key, key)} if key != "Tab" else {}
        code = {"Enter": 13, "Tab": 9, " ": 32}[key]
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def errors(self):
        """What an open console would show in red."""
        thrown = [event["exceptionDetails"] for event in self.happened("Runtime.exceptionThrown")]
        logged = [event["entry"] for event in self.happened("Log.entryAdded")]
        called = [event for event in self.happened("Runtime.consoleAPICalled") if event["type"] == "error"]
        return (
            [error.get("exception", {}).get("description", error["text"]) for error in thrown]
            + [entry["text"] for entry in logged if entry["level"] == "error"]
            + [" ".join(str(value.get("value")) for value in event["args"]) for event in called]
        )

    def requests(self):
        """Every address that was asked for and is not a file beside the page."""
        asked = [event["request"]["url"] for event in self.happened("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def loaded(self, page):
        """Every file that a page loads by itself, itself included: name -> bytes."""
        self.open(page, width=1280)
        self.ask("document.fonts.ready.then(() => new Promise(done => setTimeout(done, 500)))")
        asked = {event["request"]["url"] for event in self.happened("Network.requestWillBeSent")}
        files = [Path(unquote(urlparse(url).path)) for url in asked if url.startswith("file:")]
        return {file.name: file.stat().st_size for file in files}

    def close(self):
        self.page = None
        self.call("Browser.close")
        self.socket.close()
        self.process.wait(30)
