package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
)

// display computes the text of the live display. The screen draws it.
type display struct {
	run     Run
	started time.Time
	latest  map[string]trinity.Record // by role
	marks   []mark                    // of the last steps of the role whose steps count
	starts  []time.Time               // of the processes of that role, if they were several
	rewards *curve
	losses  *curve
	evals   trinity.Metrics
	evalAt  int64
	doing   map[string]doing // by role
	now     time.Time        // the last look at the clock
	worst   string           // answer of the newest step that has some
	heard   activity
}

// doing is what a role does within a step.
type doing struct {
	what        string
	done, total int // 0 of 0: it waits
	since       time.Time
}

// mark is the time at which a step ended.
type mark struct {
	step int64
	time time.Time
}

// etaSteps is the number of last steps whose speed gives the estimated end.
const etaSteps = 20

func newDisplay(run Run) *display {
	return &display{run: run, started: time.Now(), latest: map[string]trinity.Record{}, evals: trinity.Metrics{},
		rewards: newCurve(run.TotalSteps), losses: newCurve(run.TotalSteps), doing: map[string]doing{}}
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
	if _, trains := d.latest[trinity.RoleTrainer]; r.Role == trinity.RoleTrainer && !trains {
		d.marks = nil // from now on the trainer's steps count
	}
	d.latest[r.Role] = r
	d.worst = cmp.Or(worst(r.Samples), d.worst)
	if v, ok := r.Metrics[rewardMetric]; ok {
		d.rewards.add(r.Step, v)
	}
	if v, ok := r.Metrics["actor/final_loss"]; ok {
		d.losses.add(r.Step, v)
	}
	if r.Role == d.counts() {
		d.marks = append(d.marks, mark{r.Step, r.Time})
		d.marks = d.marks[max(0, len(d.marks)-etaSteps-1):]
	}
}

// progress notes what a role does.
func (d *display) progress(role, what string, done, total int) {
	was := d.doing[role]
	if was.what != what {
		was = doing{what: what, since: time.Now()}
	}
	was.done, was.total = done, total
	d.doing[role] = was
}

// doings returns what the roles do, in words.
func (d *display) doings() (words []string) {
	for _, role := range slices.Sorted(maps.Keys(d.doing)) {
		w := d.doing[role].what
		if of := d.doing[role]; of.total > 1 {
			w += fmt.Sprintf(" %d/%d", of.done, of.total)
		}
		if since := d.now.Sub(d.doing[role].since); since >= time.Second {
			w += " for " + wait.Text(since.Round(time.Second))
		}
		words = append(words, w)
	}
	return words
}

// counts returns the role whose steps count as the run's steps.
func (d *display) counts() string {
	if _, ok := d.latest[trinity.RoleTrainer]; ok {
		return trinity.RoleTrainer
	}
	return trinity.RoleExplorer
}

// row is a line of the display.
type row struct{ label, text string }

// lines returns the rows for a terminal of a width in columns.
func (d *display) lines(width int) []row {
	rows := []row{{strings.TrimPrefix(d.run.Project+"/"+d.run.Name, "/"), ""}, {"step", d.stepText(width)}}
	spark := max(8, min(60, width-50))
	if len(d.rewards.bins) > 0 {
		rows = append(rows, row{"reward", d.rewards.text(spark)})
	}
	add := func(label string, fields []string) {
		rows = append(rows, row{label, joined(fields, width-1-labelWidth)})
	}
	if e, ok := d.latest[trinity.RoleExplorer]; ok {
		add("rollout", second(describe(e.Metrics, rolloutRow), waits(e.Metrics, explorerWait)))
	}
	if t, ok := d.latest[trinity.RoleTrainer]; ok {
		fields := describe(t.Metrics, trainRow)
		if !d.run.FromData {
			fields = second(fields, waits(t.Metrics, trainerWait))
		}
		add("train", fields)
		if len(d.losses.bins) > 0 {
			rows = append(rows, row{"loss", d.losses.text(spark)})
		}
	}
	for _, name := range Evaluations(d.evals) {
		if RepeatsAccuracy(d.evals, name) {
			continue
		}
		shown := safetext.Printable(strings.TrimPrefix(name, "eval/"))
		rows = append(rows, row{"eval", fmt.Sprintf("%s %s  at step %d", shown, number(d.evals[name]), d.evalAt)})
	}
	if words := d.heard.waits(d.started, d.lastTime()); len(words) > 0 {
		add("waits", words)
	}
	if text := d.heard.failure(); text != "" {
		rows = append(rows, row{"failed", text})
	}
	if d.worst != "" {
		rows = append(rows, row{"worst", d.worst})
	}
	if words := d.doings(); len(words) > 0 {
		add("now", words)
	}
	return rows
}

// second inserts fields behind the first one, where no width cuts them.
func second(fields, more []string) []string {
	return slices.Insert(fields, min(1, len(fields)), more...)
}

// joined joins the fields that fit a width whole, and at least the first.
func joined(fields []string, width int) string {
	text := ""
	for i, f := range fields {
		if i > 0 {
			f = text + "  " + f
		}
		if i > 0 && utf8.RuneCountInString(f) > width {
			break
		}
		text = f
	}
	return text
}

var rolloutRow = []consoleMetric{
	{"rollout/tokens_per_second", "", perSecond},
	{"time/explore_step", "step", seconds},
	{"rollout/response_length/mean", "length", number},
	{"rollout/failed_run_count", "failed", positive},
}

var trainRow = []consoleMetric{
	{"perf/throughput", "", perSecond},
	{"time/train_step", "step", seconds},
	{"actor/kl_loss", "kl", number},
	{"actor/grad_norm", "grad", number},
	{"actor/lr", "lr", number},
}

// The metrics of a role's wait for the other, followed by those of its work.
var (
	explorerWait = []string{"time/explorer_sync_interval", "time/explore_step"}
	trainerWait  = []string{"time/read_experience", "time/train_step", "time/sync_weight"}
)

// waits returns a field with the share of its time that a role waited for the other; none without
// such metrics.
func waits(m trinity.Metrics, of []string) []string {
	waited, ok := m[of[0]]
	all := 0.
	for _, name := range of {
		all += m[name]
	}
	if !ok || all <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("waits %.0f%%", 100*waited/all)}
}

// stepText returns step, bar and estimated time to the end.
func (d *display) stepText(width int) string {
	step := d.run.FromStep
	if len(d.marks) > 0 {
		step = d.marks[len(d.marks)-1].step
	}
	elapsed := d.lastTime().Sub(d.started)
	if d.run.TotalSteps <= 0 {
		return fmt.Sprintf("%d  after %s", step, wait.Text(elapsed.Round(time.Second)))
	}
	done := min(1, float64(step)/float64(d.run.TotalSteps))
	text := fmt.Sprintf("%d/%d  %s  %.0f%%  after %s", step, d.run.TotalSteps, bar(done, max(5, min(40, width-60))), 100*done,
		wait.Text(elapsed.Round(time.Second)))
	if left, ok := d.left(step); ok {
		text += "  left " + wait.Text(left.Round(time.Second))
	}
	return text
}

// left estimates the time to the end from the speed of the last steps, without the pauses in which no
// process made some. It returns false if there are too few.
func (d *display) left(step int64) (time.Duration, bool) {
	if len(d.marks) == 0 || step >= d.run.TotalSteps {
		return 0, false
	}
	marks := d.marks
	if len(marks) == 1 {
		marks = []mark{{d.run.FromStep, d.started}, marks[0]}
	}
	steps := marks[len(marks)-1].step - marks[0].step
	if steps <= 0 {
		return 0, false
	}
	lived := time.Duration(0)
	for i, m := range marks[1:] {
		lived += rundir.Lived(d.starts, marks[i].time, m.time)
	}
	return time.Duration(float64(lived) / float64(steps) * float64(d.run.TotalSteps-step)), true
}

func (d *display) lastTime() time.Time {
	last := d.started
	if d.now.After(last) {
		last = d.now
	}
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
