package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
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
		whole.write(&b, false)
	}
	return b.String()
}

// whole returns the memory and the time of several stages, one after another; nil for a single stage or if one of
// them does not know its own.
func (p *Plan) whole() *StagePlan {
	all := StagePlan{title: "all stages"}
	for _, s := range p.Stages {
		if len(s.Memory) == 0 || s.Seconds == 0 || len(p.Stages) < 2 {
			return nil
		}
		if s.MemorySum >= all.MemorySum {
			all.Memory, all.MemorySum, all.MemoryHere = s.Memory, s.MemorySum, s.MemoryHere
		}
		all.Seconds += s.Seconds
		all.EvalTime += s.EvalTime
	}
	all.addMemory()
	all.addTime()
	return &all
}

// planRow is a row of the text. Details are left out unless they are wanted.
type planRow struct {
	name, text string
	isDetail   bool
}

// planValue is a value of the JSON.
type planValue struct {
	key   string
	value any
}

// row adds a row without passwords.
func (s *StagePlan) row(name, format string, args ...any) {
	s.rows = append(s.rows, planRow{name, safetext.Hidden(fmt.Sprintf(format, args...)), false})
}

func (s *StagePlan) detail(name, format string, args ...any) {
	s.row(name, format, args...)
	s.rows[len(s.rows)-1].isDetail = true
}

// has adds values by their keys, without passwords. Those that are empty are left out.
func (s *StagePlan) has(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		if text, ok := pairs[i+1].(string); ok {
			pairs[i+1] = safetext.Hidden(text)
		}
		if of := reflect.ValueOf(pairs[i+1]); !of.IsZero() && (of.Kind() != reflect.Slice || of.Len() > 0) {
			s.values = append(s.values, planValue{pairs[i].(string), pairs[i+1]})
		}
	}
}

// one adds a row and a value, unless the text is empty.
func (s *StagePlan) one(name, key, text string) {
	if s.has(key, text); text != "" {
		s.row(name, "%s", text)
	}
}

// list adds a row for each line, and all of them as a value.
func (s *StagePlan) list(name, key string, lines []string) {
	hidden := wordsOf(lines, safetext.Hidden)
	for _, line := range hidden {
		s.row(name, "%s", line)
	}
	s.has(key, hidden)
}

// write prints one stage.
func (s *StagePlan) write(b *strings.Builder, details bool) {
	b.WriteString(s.title + "\n")
	for _, r := range s.rows {
		if details || !r.isDetail {
			fmt.Fprintf(b, "  %-12s %s\n", r.name, r.text)
		}
	}
}

// MarshalJSON implements [json.Marshaler].
func (s *StagePlan) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, v := range s.values {
		text, err := json.Marshal(v.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", v.key), text...)
	}
	return append(out, '}'), nil
}

// addMemory adds the memory on each device, with its parts.
func (s *StagePlan) addMemory() {
	var devices []string
	sums, free := map[string]int64{}, map[string]int64{"": s.MemoryHere}
	for _, m := range s.Memory {
		if !slices.Contains(devices, m.Device) {
			devices = append(devices, m.Device)
		}
		sums[m.Device] += m.Bytes
		free[m.Device] = max(free[m.Device], m.Free)
	}
	s.MemorySum = sums[""]
	for _, device := range devices {
		s.row(cmp.Or(device, "memory"), "about %s%s", Size(sums[device]),
			cmp.Or(against(sums[device], free[device], "available"), unknown(device, sums[device])))
		for _, m := range s.Memory {
			if m.Device == device {
				s.detail("", "  %9s  %s (%s)", Size(m.Bytes), m.Kind, m.Why)
			}
		}
	}
}

// addTime adds the time of the stage, if it is known.
func (s *StagePlan) addTime() {
	evals := ""
	if s.EvalTime > 0 {
		evals = ", evaluations " + wait.Text(wait.Seconds(s.EvalTime)) + " of it"
	}
	if s.Seconds > 0 {
		s.row("time", "about %s%s", wait.Text(wait.Seconds(s.Seconds)), evals)
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

// words returns how many parameters the model has; "" if that is not known.
func (m ModelFacts) words() string {
	if m.Parameters == 0 {
		return ""
	}
	words := fmt.Sprintf(", %s parameters", thousands(m.Parameters))
	if m.Active > 0 {
		words += fmt.Sprintf(", %s of them for a token", thousands(m.Active))
	}
	if m.Trained > 0 && m.Trained != m.Parameters {
		words += fmt.Sprintf(", %s of them trained", thousands(m.Trained))
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
