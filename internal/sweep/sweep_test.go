package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

func TestRungs(t *testing.T) {
	for _, c := range []struct {
		trials, eta, total int
		want               []int
		err                string
	}{
		{8, 2, 80, []int{10, 20, 40, 80}, ""}, {9, 3, 90, []int{10, 30, 90}, ""}, {8, 3, 90, []int{30, 90}, ""}, {2, 3, 90, []int{30, 90}, ""},
		{1, 3, 90, []int{90}, ""}, {27, 3, 100, []int{3, 11, 33, 100}, ""}, {8, 2, 7, nil, "too few for 4 rungs"},
	} {
		s := &sweep{Options: Options{Eta: c.eta}, base: &config.Config{}, trials: make([]*trial, c.trials)}
		s.base.Buffer.TotalSteps = &c.total
		s.base.Algorithm.Optimizer.LRSchedulerType = "constant"
		got, err := s.rungs()
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !slices.Equal(got, c.want) || !strings.Contains(said, c.err) || (err != nil) != (c.err != "") {
			t.Errorf("%d trials, %d steps: %v, %v; want %v, %q", c.trials, c.total, got, err, c.want, c.err)
		}
	}
}

func TestReason(t *testing.T) {
	exit := errors.New("exit status 1")
	for printed, want := range map[string]string{
		"12:00:00  step 1/2\ntrinity: disk full\ntrinity: and more\n": "disk full",
		"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n":        "boom",
		"12:00:00  step 1/2\n": "12:00:00  step 1/2: exit status 1",
		"":                     "exit status 1",
	} {
		if got := reason(printed, exit); got != want {
			t.Errorf("%q: %q, want %q", printed, got, want)
		}
	}
}

// The sweep warns of a metric that the first records of the first run lack, once these records have all that a step
// logs; of an evaluation's metric, once an evaluation has ended.
func TestWrongMetricIsSaidEarly(t *testing.T) {
	const explorer, trainer = "explorer 1 rollout/reward/mean", "trainer 1 actor/final_loss"
	for _, c := range []struct {
		metric, mode string
		records      []string
		said         bool
	}{
		{"actor/final_los", "both", nil, false},
		{"actor/final_los", "both", []string{explorer}, false},
		{"actor/final_los", "both", []string{explorer, trainer}, true},
		{"actor/final_loss", "both", []string{explorer, trainer}, false},
		{"actor/final_los", "both", []string{"explorer 0 eval/few/reward/mean@1", trainer}, false},
		{"rollout/reward", "colocate", []string{trainer, explorer}, true},
		{"actor/final_los", "train", []string{trainer}, true},
		{"few/reward", "bench", []string{"explorer 1 bench/few/reward/mean@1"}, true},
		{"eval/few/reward/mean@1", "both", []string{explorer, trainer}, false},
		{"eval/few/reward/mean@1", "both", []string{"explorer 0 eval/few/reward/mean@2"}, true},
	} {
		dir := t.TempDir()
		text := ""
		for _, r := range c.records {
			f := strings.Fields(r)
			text += fmt.Sprintf(`{"step":%s,"role":%q,"time":"2026-01-02T15:04:05.123Z","metrics":{%q:1}}`+"\n", f[1], f[0], f[2])
		}
		if err := os.WriteFile(filepath.Join(dir, rundir.MetricsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // look once
		var said []string
		s := &sweep{Options: Options{Metric: c.metric, Say: func(line string) { said = append(said, line) }}}
		last := &config.Settled{Config: config.Config{Mode: c.mode}}
		last.Monitor.CacheDir = dir
		s.watch(ctx, &oneRun{name: "first", last: last})
		if want := fmt.Sprintf("first has logged its first steps without %q", c.metric); (len(said) == 1) != c.said ||
			c.said && !strings.Contains(said[0], want) {
			t.Errorf("%s in mode %s after %q: said %q, want that it says it: %v", c.metric, c.mode, c.records, said, c.said)
		}
	}
}
