package bridge

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestDecode(t *testing.T) {
	for reply, want := range map[string]string{
		`{"n": 3}`:                    "",
		`{"error": ""}`:               "",
		`{"error": "no such game"}`:   "no such game",
		`{"error": "no", "n": "two"}`: "no",
		`{"n": "two"}`:                "cannot unmarshal string",
		`Traceback`:                   `the answer "Traceback" is no JSON object`,
		``:                            `the answer "" is no JSON object`,
	} {
		var answer struct{ N int }
		err := Decode([]byte(reply), &answer)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", reply, err, want)
		}
	}
}

// script answers with the number that it is asked with. The key do says what else it does.
const script = `
def fail(n):
    raise ValueError("cannot")

def talk(n):
    print("chatter")
    return {"n": n}

def hang(n):
    import time
    time.sleep(3600)

serve({"echo": lambda n: {"n": n}, "fail": fail, "print": talk, "hang": hang})
`

func TestCall(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	b := (&Python{Python: "python3"}).Open(script, 1)
	defer b.Close()
	ask := func(ctx context.Context, do string, n int) (int, error) {
		var answer struct{ N int }
		err := b.Call(ctx, map[string]any{"do": do, "n": n}, &answer)
		return answer.N, err
	}
	for i, do := range []string{"echo", "print", "echo"} { // what a library prints is no answer
		if n, err := ask(t.Context(), do, i); err != nil || n != i {
			t.Errorf("%s: %d, %v, want %d", do, n, err, i)
		}
	}
	if _, err := ask(t.Context(), "fail", 0); err == nil || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("a question that fails: %v", err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
	defer cancel()
	if _, err := ask(ctx, "hang", 0); !errors.Is(err, late) {
		t.Errorf("a question that hangs: %v", err)
	}
	if n, err := ask(t.Context(), "echo", 7); err != nil || n != 7 { // of a process that starts anew
		t.Errorf("after that: %d, %v", n, err)
	}
}

func TestHas(t *testing.T) {
	if err := (&Python{Python: "no-such-python"}).Has("json"); err == nil || !strings.Contains(err.Error(), "no-such-python") {
		t.Errorf("without the interpreter: %v", err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	p := &Python{Python: "python3"}
	if err := p.Has("json"); err != nil {
		t.Error(err)
	}
	if err := p.Has("no_such_module"); err == nil || !strings.Contains(err.Error(), "python3 has no module no_such_module: install it there") {
		t.Errorf("without the module: %v", err)
	}
}
