package cluster

import (
	"strings"
	"testing"
)

const begin = "Traceback (most recent call last):\n  File \"a.py\", line 1\n"

// A program's reason is found in what servers write, whatever comes before and after it.
func TestReasonOfAnEnd(t *testing.T) {
	banner := strings.Repeat("(APIServer pid=1) INFO 11-29 04:50:00 [api_server.py:1] vLLM API server version 0.32.0\n", 40)
	for name, c := range map[string]struct{ text, want string }{
		"vLLM's engine": {banner + `(EngineCore pid=7) ERROR 11-29 04:50:01 [core.py:780] EngineCore failed to start.
(EngineCore pid=7) ERROR 11-29 04:50:01 [core.py:780] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-29 04:50:01 [core.py:780]   File "core.py", line 7, in run
(EngineCore pid=7) ERROR 11-29 04:50:01 [core.py:780] ValueError: No available memory for the cache blocks.
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "entry.py", line 2, in main
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
`, "ValueError: No available memory for the cache blocks."},
		"pydantic": {banner + begin + "core.ValidationError: 1 error for ModelConfig\n  Value error, no such model type `x`\n\nbye\n",
			"core.ValidationError: 1 error for ModelConfig Value error, no such model type `x`"},
		"SGLang": {"[2026-11-29 04:50:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"s.py\", line 1\n" +
			"torch.OutOfMemoryError: CUDA out of memory.\n" + strings.Repeat("[2026-11-29 04:50:01] Shutting down\n", 40) +
			begin + "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).",
			"torch.OutOfMemoryError: CUDA out of memory."},
		"chained": {begin + "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n" +
			"Traceback (most recent call last):\n  b\nOSError: no such file: config.json\n", "OSError: no such file: config.json"},
		"points at nothing": {begin + "RuntimeError: initialization failed\n", "RuntimeError: initialization failed"},
		"arguments": {"usage: server.py [-h]\n" + banner + "server.py: error: unrecognized arguments: --no\n",
			"server.py: error: unrecognized arguments: --no"},
		"C++": {banner + "terminate called after throwing an instance of 'c10::Error'\n  what():  no kernel\nAborted\n",
			"what():  no kernel"},
		"colours":          {"\x1b[1;36m(APIServer pid=1)\x1b[0;0m " + begin + "ImportError: libcuda.so.1\n", "ImportError: libcuda.so.1"},
		"none":             {banner, ""},
		"trouble long ago": {begin + "ValueError: one request\n" + banner + banner + banner, ""},
		"torchrun": {begin + "ValueError: oh\nRoot Cause (first observed failure):\n[0]:\n  rank : 1 (local_rank: 1)\n",
			""},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			var s programOutput
			for text := []byte(c.text + "\n"); len(text) > 0; {
				n := min(size, len(text))
				if _, err := s.Write(text[:n]); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			if got := s.why(); got != c.want {
				t.Errorf("%s, %d bytes at once: %q, want %q", name, size, got, c.want)
			}
		}
	}
}

// A server that was killed has no reason, whatever trouble it told before.
func TestReasonOfAKilledProgram(t *testing.T) {
	const last = "; it said: INFO: 200 OK"
	for status, want := range map[int]string{1: "; it said: ValueError: one request", -9: last, -15: last} {
		var s programOutput
		_, _ = s.Write([]byte(strings.Repeat("banner\n", 200) + begin + "ValueError: one request\nINFO: 200 OK\n"))
		if got := s.ending(status); got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
	}
}

// What programs write is read whatever it is.
func FuzzReason(f *testing.F) {
	f.Add([]byte(begin+"ValueError: \xff\n  b\x1b[0m"), 3)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var s programOutput
		cut = max(0, min(cut, len(text)))
		_, _ = s.Write(text[:cut])
		_, _ = s.Write(text[cut:])
		if quote := s.quoted(); strings.Contains(quote, "\n") {
			t.Errorf("%q", quote)
		}
		_ = s.lastLine()
	})
}
