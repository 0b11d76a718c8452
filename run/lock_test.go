package run_test

import (
	"fmt"
	"os"
	"testing"

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
