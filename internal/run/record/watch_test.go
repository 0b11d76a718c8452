package record

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
)

// warnings returns what a watch of a run with these settings says of records.
func warnings(cfg *config.Settled, records ...trinity.Metrics) (all []string) {
	w := newWatch(cfg)
	for i, m := range records {
		all = append(all, w.add(trinity.Record{Step: int64(i), Role: "explorer", Metrics: m})...)
	}
	return all
}

func measured(accuracy, rows float64) trinity.Metrics {
	return trinity.Metrics{
		"eval/few/accuracy/mean@1": accuracy, "eval/few/finished_task_count": rows, "eval/few/response_length/mean@1": 9 * accuracy,
		explorer.EvalVersion: 7,
	}
}

func part(value float64) trinity.Metrics {
	return trinity.Metrics{"eval/few/penalty/mean@1": value, "eval/few/finished_task_count": 200, explorer.EvalVersion: 7}
}

func step(collapsed, entropyNow, reward float64) trinity.Metrics {
	return trinity.Metrics{explorer.CollapsedShare: collapsed, entropy: entropyNow, meanReward: reward, maxReward: 1}
}

func TestWarningsOfAPolicyThatGetsWorse(t *testing.T) {
	for name, c := range map[string]struct {
		records []trinity.Metrics
		says    []string
	}{
		"an evaluation falls": {[]trinity.Metrics{measured(.46, 200), measured(.29, 200), measured(.1, 200)},
			[]string{"eval/few/accuracy/mean@1 is 0.29 and was 0.46"}},
		"a part of the reward falls": {[]trinity.Metrics{part(.46), part(.2)}, nil},
		"few rows":                   {[]trinity.Metrics{measured(.46, 20), measured(.29, 20)}, nil},
		"noise":                      {[]trinity.Metrics{measured(.46, 200), measured(.40, 200)}, nil},
		"it rises":                   {[]trinity.Metrics{measured(.33, 200), measured(.87, 200)}, nil},
		"it falls to where it was":   {[]trinity.Metrics{measured(.33, 200), measured(.87, 200), measured(.33, 200)}, nil},
		"one of two rows":            {[]trinity.Metrics{measured(1, 2), measured(.5, 2)}, nil},
		"all right, then none":       {[]trinity.Metrics{measured(1, 16), measured(0, 16)}, []string{"is 0 and was 1"}},
		"rewards of another range":   {[]trinity.Metrics{measured(46, 200), measured(.1, 200)}, nil},
		"groups collapse": {[]trinity.Metrics{step(.1, 1, .3), step(.95, 1, .3), step(.95, 1, .3), step(1, 1, .3), step(1, 1, .3)},
			[]string{"collapsed onto one answer, in 100 %"}},
		"now and then": {[]trinity.Metrics{step(.1, 1, .3), step(.95, 1, .3), step(.2, 1, .3), step(1, 1, .3), step(1, 1, .3)},
			nil},
		"it began so": {[]trinity.Metrics{step(.9, 1, .3), step(1, 1, .3), step(1, 1, .3), step(1, 1, .3)}, nil},
		"entropy goes to 0": {[]trinity.Metrics{step(0, 1, .3), step(0, .009, .3), step(0, .002, .3), step(0, .001, .3)},
			[]string{"entropy of the policy is 0.001 nats and was 1"}},
		"entropy of a task that is done": {[]trinity.Metrics{step(0, 1, .3), step(0, .009, .99), step(0, .002, .99), step(0, .001, 1)},
			nil},
		"entropy falls": {[]trinity.Metrics{step(0, .14, .3), step(0, .08, .5), step(0, .04, .8), step(0, .03, .8)},
			nil},
		"a model that is sure": {[]trinity.Metrics{step(0, .05, .3), step(0, .0001, .3), step(0, .0001, .3), step(0, .0001, .3)},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := warnings(&config.Settled{}, c.records...)
			if len(got) != len(c.says) {
				t.Fatalf("%q, want %q", got, c.says)
			}
			for i, says := range c.says {
				if !strings.HasPrefix(got[i], "WARNING: explorer step ") || !strings.Contains(got[i], says) || strings.Contains(got[i], "\n") {
					t.Errorf("%q, want %q", got[i], says)
				}
			}
		})
	}
}

// Nobody is told to do what the run does.
func TestAdviceThatARunFollows(t *testing.T) {
	keeps, pays, pays1, none := &config.Settled{}, &config.Settled{}, &config.Settled{}, &config.Settled{}
	keeps.Trainer.KeepBest = "eval/few/accuracy/mean@1"
	pays.Method.Parts = &trinity.Algorithm{EntropyArgs: map[string]any{"entropy_coef": .01}}
	pays1.Method.Parts = &trinity.Algorithm{EntropyArgs: map[string]any{"entropy_coef": 1}}
	none.Method.Parts = &trinity.Algorithm{EntropyArgs: map[string]any{"entropy_coef": 0.}}
	falls := []trinity.Metrics{measured(.46, 200), measured(.29, 200)}
	collapses := []trinity.Metrics{step(.1, 1, .3), step(.95, 1, .3), step(.95, 1, .3), step(1, 1, .3)}
	certain := []trinity.Metrics{step(0, 1, .3), step(0, .009, .3), step(0, .002, .3), step(0, .001, .3)}
	const (
		keep    = "with 200 rows. Keep the best checkpoint (trainer.keep_best), or lower the learning rate"
		kept    = "with 200 rows. The run keeps its best checkpoint (trainer.keep_best). Lower the learning rate"
		pay     = "Lower the learning rate, or pay for entropy (algorithm.entropy_loss_fn_args.entropy_coef)"
		payMore = "Lower the learning rate, or pay more for entropy (algorithm.entropy_loss_fn_args.entropy_coef)"
	)
	for name, c := range map[string]struct {
		cfg     *config.Settled
		records []trinity.Metrics
		ends    string
	}{
		"an evaluation falls":                           {none, falls, keep},
		"an evaluation falls, and the best is kept":     {keeps, falls, kept},
		"groups collapse":                               {none, collapses, pay},
		"groups collapse, and entropy pays":             {pays, collapses, payMore},
		"entropy goes to 0":                             {none, certain, pay},
		"entropy goes to 0, and it pays a whole number": {pays1, certain, payMore},
		"entropy goes to 0, and the best is kept":       {keeps, certain, pay},
	} {
		if got := warnings(c.cfg, c.records...); len(got) != 1 || !strings.HasSuffix(got[0], c.ends) {
			t.Errorf("%s: %q, want the end %q", name, got, c.ends)
		}
	}
}
