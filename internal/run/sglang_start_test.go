//go:build unix

package run_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest/server"
)

// fakeSGLang is sglang.launch_server: it hands requests that bear its key to the server in the variable
// FAKE, and writes its arguments and process id beside itself.
const fakeSGLang = `
import http.server, os, pathlib, sys, urllib.error, urllib.request
args = {}
for word in sys.argv[1:]:
    if word.startswith("--"):
        args[flag := word] = ""
    else:
        args[flag] = word
key = args.pop("--api-key")
here = pathlib.Path(__file__).parent
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/health" and self.headers["Authorization"] != "Bearer " + key:
            return self.reply(401, b"no key")
        if self.path == "/health":
            return self.reply(200, b"")
        url = os.environ["FAKE"] + self.path
        ask = urllib.request.Request(url, body or None, {"Content-Type": "application/json"}, method=self.command)
        try:
            with urllib.request.urlopen(ask) as r:
                self.reply(r.status, r.read())
        except urllib.error.HTTPError as e:
            self.reply(e.code, e.read())
    do_GET = do_POST = do
    def reply(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
(here / "started").write_text(str(os.getpid()) + "\n" + " ".join(k + " " + v for k, v in args.items()))
http.server.ThreadingHTTPServer((args["--host"], int(args["--port"])), H).serve_forever()
`

// A run starts SGLang, trains on what it samples, and leaves no process.
func TestRunStartsSGLang(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	packages := t.TempDir()
	launch := filepath.Join(packages, "sglang", "launch_server.py")
	if err := os.Mkdir(filepath.Dir(launch), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(launch, []byte(fakeSGLang), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProject(t, tiny, rl)
	fake := server.SGLang(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen})
	fake.Open = p.scoring(0, func() {})
	args := fmt.Sprintf("{python: %s, env: {PYTHONPATH: %s, FAKE: %q}}", python, packages, fake.URL)
	_, err = p.run(t, "explorer.rollout_model.engine_type=sglang", "explorer.rollout_model.engine_args="+args,
		"explorer.rollout_model.dtype=float32", // as the trainer has it
		noWeights,
		"algorithm.rollout_correction={bypass_mode: false, rollout_is: token}", "buffer.total_steps=3")
	if err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "trainer", "rollout_corr/kl"); len(got) != 3 ||
		slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v) > 1e-5 }) {
		t.Errorf("kl %v, want 0 in 3 steps", got)
	}
	if n := len(fake.Loads()); n != 4 { // versions 0 to 3
		t.Errorf("the server has loaded %q", fake.Loads())
	}
	started, err := os.ReadFile(filepath.Join(filepath.Dir(launch), "started"))
	if err != nil {
		t.Fatal(err)
	}
	pid, flags, _ := strings.Cut(string(started), "\n")
	for _, want := range []string{
		"--model-path " + filepath.Join(p.dir, "model"), "--dtype float32", "--tensor-parallel-size 1", "--device cpu",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("it was started with %q, without %s", flags, want)
		}
	}
	if exec.Command("kill", "-0", pid).Run() == nil {
		t.Errorf("the process %s of the server is left", pid)
	}
}

// Without SGLang there, one line says so and what to do.
func TestRunWithoutSGLang(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	if exec.Command(python, "-c", "import sglang").Run() == nil {
		t.Skip("this Python has sglang")
	}
	p := newProject(t, tiny, rl)
	_, err = p.run(t, "explorer.rollout_model.engine_type=sglang", fmt.Sprintf("explorer.rollout_model.engine_args={python: %s}", python))
	if err == nil || !strings.Contains(err.Error(), "install sglang there") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
