package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
)

const killedDir = "TRINITY_TEST_KILLED_DIR" // set in the process that is to be killed

// rounds is the number of rounds. In each the process writes the round's number to a file, a
// directory and a log.
const rounds = 3

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		err := errors.Join(failpoint.Check(), writeRounds(dir), writeHits(filepath.Join(dir, "hits")))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(tracedDir); dir != "" {
		if err := writeTraced(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func writeHits(path string) error {
	text, err := json.Marshal(failpoint.Hits())
	return errors.Join(err, os.WriteFile(path, text, 0o644))
}

func writeRounds(dir string) error {
	log, err := OpenLog(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	acknowledged, err := os.Create(filepath.Join(dir, "acknowledged"))
	if err != nil {
		return err
	}
	for round := 1; round <= rounds; round++ {
		text := []byte(strconv.Itoa(round))
		for _, one := range []struct {
			name  string
			write func() error
		}{
			{"file", func() error { return WriteFile(filepath.Join(dir, "file"), text) }},
			{"dir", func() error {
				return WriteDir(filepath.Join(dir, "dir"), func(temp string) error { return WriteFile(filepath.Join(temp, "x"), text) })
			}},
			{"log", func() error { _, err := log.Append(text); return err }},
			{"trim", func() error { return log.Trim(int64(round - 2)) }},
			{"gone", func() error { return removeRound(filepath.Join(dir, "gone"), text) }},
		} {
			if err := one.write(); err != nil {
				return err
			}
			fmt.Fprintln(acknowledged, one.name, round)
		}
	}
	return nil
}

// removeRound makes a directory with two files and removes it.
func removeRound(dir string, text []byte) error {
	err := WriteDir(dir, func(temp string) error {
		return errors.Join(os.WriteFile(filepath.Join(temp, "a"), text, 0o644), os.WriteFile(filepath.Join(temp, "b"), text, 0o644))
	})
	return errors.Join(err, RemoveDir(dir))
}

// writeAt runs the rounds in another process with the given failpoints.
func writeAt(t *testing.T, dir, rules string) (ended error) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), killedDir+"="+dir, failpoint.Variable+"="+rules+"; durable.log.roll=force")
	return c.Run()
}

// Wherever a process is killed or its disk is full, everything that it acknowledged is there, and
// everything is whole.
func TestNothingIsLostAtAnyFailpoint(t *testing.T) {
	whole := t.TempDir()
	if err := writeAt(t, whole, ""); err != nil {
		t.Fatal(err)
	}
	var hits map[string]int64
	text, err := os.ReadFile(filepath.Join(whole, "hits"))
	if err = errors.Join(err, json.Unmarshal(text, &hits)); err != nil {
		t.Fatal(err)
	}
	for name, n := range hits {
		if n == 0 {
			t.Errorf("%s is never come to", name)
		}
		for _, action := range []string{"kill", "enospc"} {
			t.Run(name+" "+action, func(t *testing.T) {
				t.Parallel()
				for at := range n {
					if testing.Short() && at > 0 && at < n-1 {
						continue
					}
					dir := t.TempDir()
					rules := fmt.Sprintf("%s=%s@%d", name, action, at+1)
					if err := writeAt(t, dir, rules); err == nil && name != "durable.log.roll" {
						t.Errorf("%s: the process ended well", rules)
					}
					checkRounds(t, rules, dir)
				}
			})
		}
	}
}

// checkRounds checks that everything holds the acknowledged round or the next one.
func checkRounds(t *testing.T, rules, dir string) {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join(dir, "acknowledged")) // none where the first thing fails
	acknowledged := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, round, _ := strings.Cut(strings.TrimSpace(line), " ")
		acknowledged[name], _ = strconv.Atoi(round)
	}
	if err := RemoveLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"file": "file", "dir": "dir/x"} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		round, _ := strconv.Atoi(string(text))
		if had := acknowledged[name]; round != had && round != had+1 || had > 0 && err != nil {
			t.Errorf("%s: %s holds %q after round %d was acknowledged, %v", rules, path, text, had, err)
		}
	}
	if gone, _ := filepath.Glob(filepath.Join(dir, "gone", "*")); len(gone) == 1 {
		t.Errorf("%s: %v is left of two files", rules, gone)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); left != nil {
		t.Errorf("%s: left behind: %v", rules, left)
	}
	checkLog(t, rules, filepath.Join(dir, "log"), acknowledged["log"], acknowledged["trim"])
}

func checkLog(t *testing.T, rules, dir string, had, trimmed int) {
	t.Helper()
	log := openLog(t, dir)
	appendAll(t, log, "new")
	if first := int(log.First()); first > max(0, trimmed-1) {
		t.Errorf("%s: the log begins with record %d after it was trimmed in round %d", rules, first, trimmed)
	}
	got := readAll(t, ReadLog(dir, log.First()))
	want := []string{}
	for record := int(log.First()); record < int(log.Next())-1; record++ {
		want = append(want, strconv.Itoa(record+1))
	}
	if n := int(log.Next()) - 1; n != had && n != had+1 || fmt.Sprint(got) != fmt.Sprint(append(want, "new")) {
		t.Errorf("%s: the log holds %q, %d records in all, after %d were acknowledged", rules, got, n, had)
	}
}
