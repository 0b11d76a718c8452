package run_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
)

// A finished run resumes when it gets more steps, in two processes as in one.
func TestAFinishedRunIsExtended(t *testing.T) {
	for name, overrides := range map[string][]string{"queue": nil, "database": inDatabase} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := newProject(t, tiny, rl)
			two := one.copyOf(t)
			for _, steps := range []int{4, 8} {
				set := append(fields(overrides), fmt.Sprintf("buffer.total_steps=%d", steps), fmt.Sprintf("trainer.total_steps=%d", steps))
				one.start(t, nil, set...).finish(t)
				trainer := two.start(t, nil, append(set, "mode=train", "buffer.train_batch_size=12")...)
				two.await(t, trainer)
				two.start(t, nil, append(set, exploring...)...).finish(t)
				trainer.finish(t)
			}
			results(t, two.dir).sameAs(t, results(t, one.dir))
		})
	}
}

// await waits until a trainer accepts explorers.
func (p project) await(t *testing.T, trainer *process) {
	t.Helper()
	if !trainer.await(t, func() bool {
		path := filepath.Join(p.job(), "trainer.json")
		return exists(path) && strings.Contains(read(t, path), `"ended":false`)
	}) {
		t.Error("the trainer has ended before an explorer has joined")
	}
}

// A finished run that cannot resume as it is says what to set, on either side.
func TestAFinishedRunSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, strings.NewReplacer("total_steps: 8", "total_epochs: 9", "lr_scheduler_type: linear",
		"lr_scheduler_type: constant").Replace(rl))
	trainer := p.start(t, nil, training[0], training[1], training[3])
	p.await(t, trainer)
	p.start(t, nil, "mode=explore", "buffer.total_steps=2").finish(t)
	trainer.finish(t)
	say := func(overrides ...string) string {
		var said strings.Builder
		if _, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...),
			run.Options{Say: func(line string) { said.WriteString(line + "\n") }}); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	for side, c := range map[string]struct{ said, want string }{
		"explorer": {say("mode=explore", "buffer.total_steps=3"), "has ended its run, so explorer explorer has nothing to do"},
		"trainer": {say(training[0], training[1], training[3]),
			"with all experiences of its explorers: to extend it, set trainer.total_steps to another number above that"},
	} {
		if strings.Count(c.said, c.want) != 1 {
			t.Errorf("the %s says\n%s\nwant %q", side, c.said, c.want)
		}
	}
}
