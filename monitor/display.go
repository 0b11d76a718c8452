package monitor

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

// display computes the text of the live display. The screen draws it.
type display struct {
	run     Run
	started time.Time
	latest  map[string]trinity.Record // by role
	marks   []mark                    // of the last steps of the role whose steps count
	rewards series
	losses  series
	evals   trinity.Metrics
	evalAt  int64
}

// mark is the time at which a step ended.
type mark struct {
	step int64
	time time.Time
}

// etaSteps is the number of last steps whose speed gives the estimated end.
const etaSteps = 20

func newDisplay(run Run) *display {
	return &display{run: run, started: time.Now(), latest: map[string]trinity.Record{}, evals: trinity.Metrics{}}
}

// add adds a record. An evaluation's record does not replace the role's last step.
func (d *display) add(r trinity.Record) {
	for _, name := range Evaluations(r.Metrics) {
		d.evals[name], d.evalAt = r.Metrics[name], r.Step
	}
	_, explored := r.Metrics["time/explore_step"]
	if _, trained := r.Metrics["time/train_step"]; !explored && !trained {
		return
	}
	if _, trains := d.latest["trainer"]; r.Role == "trainer" && !trains {
		d.marks = nil // from now on the trainer's steps count
	}
	d.latest[r.Role] = r
	d.rewards.add(r.Metrics, "rollout/reward/mean")
	d.losses.add(r.Metrics, "actor/final_loss")
	if r.Role == d.counts() {
		d.marks = append(d.marks, mark{r.Step, r.Time})
		d.marks = d.marks[max(0, len(d.marks)-etaSteps-1):]
	}
}

// counts returns the role whose steps count as the run's steps.
func (d *display) counts() string {
	if _, ok := d.latest["trainer"]; ok {
		return "trainer"
	}
	return "explorer"
}

// row is a line of the display.
type row struct{ label, text string }

// lines returns the rows for a terminal of a width in columns.
func (d *display) lines(width int) []row {
	rows := []row{{strings.TrimPrefix(d.run.Project+"/"+d.run.Name, "/"), ""}, {"step", d.progress(width)}}
	spark := max(8, min(60, width-50))
	if len(d.rewards) > 0 {
		rows = append(rows, row{"reward", d.rewards.text(spark)})
	}
	if e, ok := d.latest["explorer"]; ok {
		rows = append(rows, row{"rollout", strings.Join(describe(e.Metrics, rolloutRow), "  ") +
			waits(e.Metrics, "trainer", "time/explorer_sync_interval", "time/explore_step")})
	}
	if t, ok := d.latest["trainer"]; ok {
		rows = append(rows,
			row{"train", strings.Join(describe(t.Metrics, trainRow), "  ") +
				waits(t.Metrics, "explorer", "time/read_experience", "time/train_step", "time/sync_weight")})
		if len(d.losses) > 0 {
			rows = append(rows, row{"loss", d.losses.text(spark)})
		}
	}
	for _, name := range Evaluations(d.evals) {
		rows = append(rows, row{"eval", fmt.Sprintf("%s %s  at step %d", strings.TrimPrefix(name, "eval/"), number(d.evals[name]), d.evalAt)})
	}
	return rows
}

var rolloutRow = []shown{
	{"rollout/tokens_per_second", "", perSecond},
	{"rollout/response_length/mean", "length", number},
	{"time/explore_step", "step", seconds},
	{"rollout/failed_run_count", "failed", positive},
}

var trainRow = []shown{
	{"perf/throughput", "", perSecond},
	{"time/train_step", "step", seconds},
	{"actor/kl_loss", "kl", number},
	{"actor/grad_norm", "grad", number},
	{"actor/lr", "lr", number},
}

// waits returns a text with the share of its time that a role waited for the other.
func waits(m trinity.Metrics, whom, wait string, work ...string) string {
	waited, ok := m[wait]
	all := waited
	for _, w := range work {
		all += m[w]
	}
	if !ok || all <= 0 {
		return ""
	}
	return fmt.Sprintf("  waits for %s %.0f%%", whom, 100*waited/all)
}

// progress returns step, bar and estimated time to the end.
func (d *display) progress(width int) string {
	step := d.run.FromStep
	if len(d.marks) > 0 {
		step = d.marks[len(d.marks)-1].step
	}
	elapsed := d.lastTime().Sub(d.started)
	if d.run.TotalSteps <= 0 {
		return fmt.Sprintf("%d  after %s", step, duration(elapsed))
	}
	done := min(1, float64(step)/float64(d.run.TotalSteps))
	text := fmt.Sprintf("%d/%d  %s  %.0f%%  after %s", step, d.run.TotalSteps, bar(done, max(5, min(40, width-60))), 100*done,
		duration(elapsed))
	if left, ok := d.left(step); ok {
		text += "  left " + duration(left)
	}
	return text
}

// left estimates the time to the end from the speed of the last steps. It returns false if there
// are too few.
func (d *display) left(step int64) (time.Duration, bool) {
	if len(d.marks) == 0 || step >= d.run.TotalSteps {
		return 0, false
	}
	from, to := mark{d.run.FromStep, d.started}, d.marks[len(d.marks)-1]
	if len(d.marks) > 1 {
		from = d.marks[0]
	}
	steps := to.step - from.step
	if steps <= 0 {
		return 0, false
	}
	return time.Duration(float64(to.time.Sub(from.time)) / float64(steps) * float64(d.run.TotalSteps-step)), true
}

func (d *display) lastTime() time.Time {
	last := d.started
	for _, r := range d.latest {
		if r.Time.After(last) {
			last = r.Time
		}
	}
	return last
}

func bar(done float64, width int) string {
	full := int(math.Round(done * float64(width)))
	return strings.Repeat("━", full) + strings.Repeat("─", width-full)
}
