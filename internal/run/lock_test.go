package run_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// A second process in a directory changes nothing, and its error names the first. The directory of
// a killed process is free.
func TestASecondProcessIsRefused(t *testing.T) {
	p := newProject(t, tiny, rl)
	first := p.start(t, []string{failpoint.Variable + "=*=sleep"})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !first.await(t, p.appears("global_step_2")) {
		t.Fatal("the first process has ended")
	}
	for _, mode := range []string{"mode=both", "mode=explore", "mode=bench"} {
		p.start(t, nil, mode).fails(t, p.job(), fmt.Sprintf("of process %d on %s, since ", first.cmd.Process.Pid, host),
			"end it, or change `name`")
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	p.start(t, nil).finish(t)
	whole := p.copyOf(t)
	whole.start(t, nil).finish(t)
	results(t, p.dir).sameAs(t, results(t, whole.dir))
}

// A process that has told its end gives its locks back in a moment: who starts then is not refused.
func TestAStartWaitsForAProcessThatHasToldItsEnd(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"explorer", "trainer"} {
		l, err := durable.TakeLock(p.job(), part, "")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, l.Release)
	}
	if _, err := p.run(t); err != nil {
		t.Error(err)
	}
}
