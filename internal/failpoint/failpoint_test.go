package failpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

var (
	first  = New("test.first")
	second = New("test.second")
)

// set sets the rules for a test.
func set(t *testing.T, text string) {
	t.Helper()
	oldOn, oldRules, oldWrong := on, rules, wrong
	t.Cleanup(func() { on, rules, wrong = oldOn, oldRules, oldWrong })
	on = text != ""
	rules, wrong = parse(text)
}

func TestErrorsFromAHitOn(t *testing.T) {
	set(t, "test.first=enospc@3; test.second=eio")
	for i, want := range []error{nil, nil, syscall.ENOSPC, syscall.ENOSPC} {
		if err := first.Hit("x/y"); !errors.Is(err, want) {
			t.Errorf("hit %d: %v, want %v", i+1, err, want)
		}
	}
	var path *fs.PathError
	if err := first.Hit("x/y"); !errors.As(err, &path) || path.Path != "x/y" || !strings.Contains(err.Error(), "test.first") {
		t.Errorf("%v names no file or no place", err)
	}
	if err := second.Hit(""); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "test.second") {
		t.Errorf("%v", err)
	}
}

func TestEverywhereCountsAllPlacesTogether(t *testing.T) {
	set(t, "*=erofs@3")
	got := []error{first.Hit(""), second.Hit(""), first.Hit("")}
	if got[0] != nil || got[1] != nil || !errors.Is(got[2], syscall.EROFS) {
		t.Errorf("%v, want an error at the third hit", got)
	}
}

func TestWriteStopsHalfWay(t *testing.T) {
	set(t, "test.first=enospc@2")
	var out bytes.Buffer
	if n, err := first.Write(&out, "f", []byte("abcd")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := first.Write(&out, "f", []byte("efgh")); n != 2 || !errors.Is(err, syscall.ENOSPC) || out.String() != "abcdef" {
		t.Errorf("%d, %v, %q", n, err, &out)
	}
}

func TestForce(t *testing.T) {
	set(t, "test.first=force@2")
	if first.Forced() || !first.Forced() || first.Hit("") != nil {
		t.Error("want the second hit to be forced, and no error")
	}
}

func TestWithoutRulesNothingHappens(t *testing.T) {
	set(t, "")
	before := Hits()["test.first"]
	var out bytes.Buffer
	if n, err := first.Write(&out, "f", []byte("ab")); n != 2 || err != nil || first.Hit("") != nil || first.Forced() {
		t.Error("something happened")
	}
	if Hits()["test.first"] != before {
		t.Error("hits were counted")
	}
}

func TestKill(t *testing.T) {
	if path := os.Getenv("TRINITY_TEST_KILLED"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = first.Write(f, path, []byte("abcd"))
		t.Fatalf("the process goes on: %v", err)
	}
	path := t.TempDir() + "/f"
	c := exec.Command(os.Args[0], "-test.run=^TestKill$")
	c.Env = append(os.Environ(), "TRINITY_TEST_KILLED="+path, Variable+"=test.first=kill")
	if out, err := c.CombinedOutput(); err == nil || c.ProcessState.Exited() && c.ProcessState.ExitCode() != 1 || bytes.Contains(out, []byte("goes on")) {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(path); string(got) != "ab" || err != nil {
		t.Errorf("%q, %v: want half of what was to be written", got, err)
	}
}

// A trace lists the places in the order in which the process reaches them; other rules still apply.
func TestTrace(t *testing.T) {
	if os.Getenv("TRINITY_TEST_TRACED") != "" {
		if err := errors.Join(first.Hit("a b"), second.Hit(""), first.Hit("c")); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestTrace$")
	c.Env = append(os.Environ(), "TRINITY_TEST_TRACED=1", Variable+"=*=trace; test.first=eio@2")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil || said.String() != "failpoint test.first a b\nfailpoint test.second \nfailpoint test.first c\n" {
		t.Errorf("%v, %q", err, &said)
	}
}

func TestWrongRulesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"test.first":          "want name=action",
		"test.first=burn":     `action "burn" is none of [eacces eio enospc erofs force kill sleep trace]`,
		"test.first=kill@0":   `hit "0"`,
		"test.first=kill@x":   `hit "x"`,
		"test.nowhere=kill":   "there is no failpoint test.nowhere: the names are test.first, test.second",
		"test.first=kill@2; ": "",
		"*=kill@9":            "",
		"":                    "",
	} {
		set(t, text)
		err := Check()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), Variable)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a second place of the same name was accepted")
		}
	}()
	New("test.first")
}

func BenchmarkOff(b *testing.B) {
	for b.Loop() {
		if err := first.Hit("x"); err != nil {
			b.Fatal(err)
		}
	}
}
