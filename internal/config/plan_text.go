package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/wait"
)

// String returns the whole plan for people.
func (p *Plan) String() string { return p.Text(true) }

// Text returns the plan for people. Without details it leaves out the parts of memory and time and the files,
// and ends with the two lines that decide whether to start: memory and time.
func (p *Plan) Text(details bool) string {
	var b strings.Builder
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if p.Cores > 0 {
		fmt.Fprintf(&b, "this machine has %d cores\n", p.Cores)
	}
	if len(p.Unused) > 0 {
		b.WriteString("set, but not used\n")
		for _, n := range p.Unused {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	}
	for _, s := range p.Stages {
		s.write(&b, details)
	}
	if whole := p.whole(); !details && whole != nil {
		b.WriteString("all stages\n")
		row := rowOf(&b)
		whole.writeMemory(row, false)
		whole.writeTime(row, false)
	}
	return b.String()
}

// whole returns the memory and the time of several stages, one after another; nil for a single stage or if one of
// them does not know its own.
func (p *Plan) whole() *StagePlan {
	if len(p.Stages) < 2 {
		return nil
	}
	var all StagePlan
	for _, s := range p.Stages {
		if len(s.Memory) == 0 || s.Seconds == 0 {
			return nil
		}
		if s.neededHere() >= all.neededHere() {
			all.Memory, all.MemoryHere = s.Memory, s.MemoryHere
		}
		all.Seconds += s.Seconds
		all.EvalTime += s.EvalTime
		all.ExperiencesPerStep, all.StepTime = s.ExperiencesPerStep, s.StepTime
	}
	return &all
}

// neededHere returns the bytes of this machine's memory that the stage needs.
func (s *StagePlan) neededHere() (sum int64) {
	for _, m := range s.Memory {
		if m.Device == "" {
			sum += m.Bytes
		}
	}
	return sum
}

// rowOf returns a function that prints a named row of a stage.
func rowOf(b *strings.Builder) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
}

// write prints one stage.
func (s *StagePlan) write(b *strings.Builder, details bool) {
	title := "plan: mode " + s.Mode
	if s.Name != "" {
		title = fmt.Sprintf("stage %s: mode %s", s.Name, s.Mode)
	}
	if s.Algorithm != "" {
		title += ", algorithm " + s.Algorithm
	}
	b.WriteString(title + "\n")
	row := rowOf(b)
	list := func(name string, lines []string) {
		for _, line := range lines {
			row(name, "%s", line)
		}
	}
	row("model", "%s%s", s.Model, parameters(s.Parameters, s.Active, s.Trainable))
	for _, e := range s.Engines {
		name, words, _ := strings.Cut(e, ": ")
		row(name, "%s", words)
	}
	if s.Critic != "" {
		row("critic", "%s", s.Critic)
	}
	list("program", s.Programs)
	list("chat", s.Chat)
	list("changed", s.Changed)
	list("prepares", s.TaskPipeline)
	if s.TasksPerStep > 0 {
		row("explore", "%s steps of %d tasks × %d rollouts (%s)", steps(s.ExploreSteps), s.TasksPerStep, s.GroupSize, s.StepsWhy)
	}
	if s.Limits != "" {
		row("limits", "%s", s.Limits)
	}
	list("tasks", s.Tasksets)
	list("teacher", s.Teachers)
	list("asks", s.Asked)
	list("reads", s.Auxiliary)
	list("joins", s.Inputs)
	list("measures", s.Measured)
	if s.ExperiencesPerStep > 0 {
		why := ""
		if s.TasksPerStep == 0 {
			why = " (" + s.StepsWhy + ")"
		}
		last := ""
		if s.LastExperiences > 0 {
			last = fmt.Sprintf(" (the last of %d)", s.LastExperiences)
		}
		row("train", "%s steps of %d experiences%s, %s each%s",
			steps(s.TrainSteps), s.ExperiencesPerStep, last, optimizerSteps(s.OptimizerSteps), why)
		row("tokens", "at most %s a train step, micro-batches of %d", thousands(s.TokensPerStep), s.MicroBatchTokens)
	}
	if s.TooLong != "" {
		row("too long", "%s", s.TooLong)
	}
	list("fetches", s.Fetch)
	for _, m := range s.Missing {
		row("missing", "%s, which is no hub name either: the run cannot start before it is there", m)
	}
	if details {
		for _, f := range s.Files {
			row("writes", "%s: %s", f.Path, f.What)
		}
	}
	if s.Disk > 0 {
		row("disk", "about %s of checkpoints%s", Size(s.Disk), against(s.Disk, s.DiskHere, "free"))
	}
	list("faster", s.Faster)
	s.writeMemory(row, details)
	s.writeTime(row, details)
}

// writeMemory prints the memory on each device, with its parts if details are wanted.
func (s *StagePlan) writeMemory(row func(name, format string, args ...any), details bool) {
	if len(s.Memory) == 0 {
		hint := ""
		if slices.Contains(s.Fetch, "model.model_path: "+s.Model) {
			hint = fmt.Sprintf(", or its config.json alone (hf download %s config.json)", s.Model)
		}
		row("memory", "not known before the model is there%s", hint)
		return
	}
	var devices []string
	sums, free := map[string]int64{}, map[string]int64{"": s.MemoryHere}
	for _, m := range s.Memory {
		if !slices.Contains(devices, m.Device) {
			devices = append(devices, m.Device)
		}
		sums[m.Device] += m.Bytes
		free[m.Device] = max(free[m.Device], m.Free)
	}
	for _, device := range devices {
		name := "memory"
		if device != "" {
			name = device
		}
		row(name, "about %s%s", Size(sums[device]), cmp.Or(against(sums[device], free[device], "available"), unknown(device, sums[device])))
		for _, m := range s.Memory {
			if details && m.Device == device {
				row("", "  %9s  %s (%s)", Size(m.Bytes), m.Kind, m.Why)
			}
		}
	}
}

// cards are the GiB that GPUs commonly have.
var cards = []int64{16, 24, 40, 48, 80, 96, 141, 180, 288}

// unknown tells which GPUs would hold bytes if nobody knows how much memory they have; "" for a device that is
// no GPU.
func unknown(device string, bytes int64) string {
	if !strings.Contains(device, "GPU") {
		return ""
	}
	const ask = "set cluster.gpu_memory to the GiB of a GPU"
	at := slices.IndexFunc(cards, func(gib int64) bool { return bytes <= gib<<30 })
	switch {
	case at < 0:
		return fmt.Sprintf(", MORE than a GPU of %d GiB has; %s", cards[len(cards)-1], ask)
	case at == 0:
		return fmt.Sprintf(", which a GPU of %d GiB has; %s", cards[0], ask)
	}
	return fmt.Sprintf(", MORE than a GPU of %d GiB has, and one of %d GiB has it; %s", cards[at-1], cards[at], ask)
}

// against compares the bytes that a stage needs with those that this machine has; 0 if not known.
func against(needed, here int64, word string) string {
	switch {
	case here == 0:
		return ""
	case needed > here:
		return fmt.Sprintf(", MORE than the %s that are %s", Size(here), word)
	}
	return fmt.Sprintf(" of %s that are %s", Size(here), word)
}

// writeTime prints the time of the stage, and that of a step if details are wanted.
func (s *StagePlan) writeTime(row func(name, format string, args ...any), details bool) {
	switch {
	case s.ExperiencesPerStep == 0 && s.TasksPerStep == 0:
		return // it makes no steps
	case s.TimeWhy != "":
		row("time", "not known: %s", s.TimeWhy)
		return
	case len(s.StepTime) == 0:
		row("time", "not known before the model and the data are here")
		return
	}
	var parts []string
	step := 0.
	for _, p := range s.StepTime {
		step += p.Seconds
		parts = append(parts, p.Name+" "+wait.Text(wait.Seconds(p.Seconds)))
	}
	if details || s.Seconds == 0 {
		row("a step", "about %s: %s", wait.Text(wait.Seconds(step)), strings.Join(parts, ", "))
	}
	if details {
		row("assumes", "%s; measured runs took 0.7 to 1.6 times as long", s.TimeIsFor)
	}
	if s.Seconds > 0 {
		evals := ""
		if s.EvalTime > 0 {
			evals = ", evaluations " + wait.Text(wait.Seconds(s.EvalTime)) + " of it"
		}
		row("time", "about %s%s", wait.Text(wait.Seconds(s.Seconds)), evals)
	}
}

func parameters(all, active, trainable int64) string {
	if all == 0 {
		return ""
	}
	words := fmt.Sprintf(", %s parameters", thousands(all))
	if active > 0 {
		words += fmt.Sprintf(", %s of them for a token", thousands(active))
	}
	if trainable > 0 && trainable != all {
		words += fmt.Sprintf(", %s of them trained", thousands(trainable))
	}
	return words
}

func steps(n int64) string {
	if n == 0 {
		return "unknown number of"
	}
	return thousands(n)
}

// optimizerSteps returns a number of optimizer steps in words.
func optimizerSteps(n int) string {
	if n == 1 {
		return "1 optimizer step"
	}
	return fmt.Sprintf("%d optimizer steps", n)
}

// thousands writes a number in groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Size writes a number of bytes.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
