package environment

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

// tabular are the arguments of environments with numbered states and a table of transitions.
type tabular struct {
	Ask          string  `yaml:"ask" required:"write the message to the policy" doc:"first message; {words} stand for what it shows"`
	Tell         string  `yaml:"tell" required:"write the message to the policy" doc:"message after each action, with the same words"`
	Unread       string  `yaml:"unread" doc:"text before tell if the reply names no action"`
	UnreadReward float64 `yaml:"unread_reward" doc:"reward of a reply that names no action; nothing happens, but it counts as a step"`
	MaxSteps     int     `yaml:"max_steps" range:"[1,)" doc:"replies at most, after which the episode is truncated"`
}

const unread = "The reply names no action."

// howToAct ends the first message of an environment with named actions.
const howToAct = "Think first, then write one of {actions} between ``` and ```, such as ```{action}```."

// transition is one of the results that an action can have.
type transition struct {
	p      float64
	state  int
	reward float64
	ends   bool
}

// markov is a Markov decision process.
type markov struct {
	actions   []string  // names, by number
	begin     []float64 // probability of each state to begin in
	next      func(state, action int) []transition
	succeeded func(state int) bool // of a state in which the episode ended
	name      func(state int) string
	show      func(state int) []string // words of the messages and what they stand for, in turn
}

// walk is an episode in a process.
type walk struct {
	inMemory
	args    *tabular
	process *markov
	random  *numpyRandom
	after   func(before, state int) int // changes the state after an action; nil if nothing does
	state   int
	steps   int
	read    int // replies that named an action
}

// start begins the episode as Gymnasium's reset(seed) does.
func (w *walk) start(p *markov, seed uint64) trinity.Observation {
	w.process, w.random, w.steps, w.read = p, newNumpyRandom(seed), 0, 0
	w.state = w.random.pick(p.begin)
	return w.says(w.args.Ask)
}

// says returns what the policy reads.
func (w *walk) says(text string) trinity.Observation {
	last := len(w.process.actions) - 1
	words := append(w.process.show(w.state),
		"{actions}", strings.Join(w.process.actions[:last], ", ")+" and "+w.process.actions[last],
		"{action}", w.process.actions[0],
		"{steps}", strconv.Itoa(w.args.MaxSteps-w.steps))
	return says(text, w.process.name(w.state), words...)
}

// Step implements [trinity.Environment].
func (w *walk) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	w.steps++
	reward, text := w.args.UnreadReward, strings.TrimSpace(w.args.Unread+"\n"+w.args.Tell)
	if action := chosen(a.Text, w.process.actions); action >= 0 {
		w.read++
		text = w.args.Tell
		reward, out.Done = w.take(action)
	}
	success := asNumber(out.Done && w.process.succeeded(w.state))
	out.Observation, out.Reward = w.says(text), &reward
	out.Truncated = !out.Done && w.steps == w.args.MaxSteps
	out.Metrics = map[string]float64{"success": success, "valid": float64(w.read) / float64(w.steps)}
	return out, nil
}

// take draws the result of an action as Gymnasium's step does.
func (w *walk) take(action int) (reward float64, ends bool) {
	results := w.process.next(w.state, action)
	odds := make([]float64, len(results))
	for i, r := range results {
		odds[i] = r.p
	}
	drawn := results[w.random.pick(odds)]
	before := w.state
	if w.state = drawn.state; w.after != nil {
		w.state = w.after(before, w.state)
	}
	return drawn.reward, drawn.ends
}

// fenced returns the last text of a reply between ``` and ```, else the whole reply.
func fenced(reply string) string {
	if parts := strings.Split(reply, "```"); len(parts) > 2 {
		return parts[len(parts)-2-(1-len(parts)%2)]
	}
	return reply
}

// fencedCode returns the last text of a reply between ``` and ```, without the name of a language
// after the first ```.
func fencedCode(reply string, languages ...string) string {
	code := fenced(reply)
	first, rest, _ := strings.Cut(code, "\n")
	if code != reply && slices.Contains(languages, strings.ToLower(strings.TrimSpace(first))) {
		return rest
	}
	return code
}

// chosen returns which of the names a reply gives, between ``` and ``` or alone. The first
// letter of a name is enough where no other name begins with it. It returns -1 if there is no such
// name.
func chosen(reply string, names []string) int {
	reply = strings.ToLower(strings.Trim(fenced(reply), " \t\r\n.\"'*"))
	begins := func(name string) bool { return len(reply) == 1 && strings.HasPrefix(strings.ToLower(name), reply) }
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, reply) })
	if i < 0 {
		if i = slices.IndexFunc(names, begins); i >= 0 && slices.ContainsFunc(names[i+1:], begins) {
			return -1
		}
	}
	return i
}

// certain returns the one result of an action whose result is certain.
func certain(state int, reward float64, ends bool) []transition {
	return []transition{{p: 1, state: state, reward: reward, ends: ends}}
}

// columns reads columns of the task's row into variables; a column that the row lacks leaves its
// variable as it is.
func columns(t *trinity.Task, into map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(into)) {
		if _, err := t.Decode(name, into[name]); err != nil {
			return err
		}
	}
	return nil
}

// grid is a rectangle of cells, numbered row by row.
type grid struct{ rows, columns int }

// move returns the cell beside another one, or the same at the edge.
func (g grid) move(cell, down, right int) int {
	row := min(max(cell/g.columns+down, 0), g.rows-1)
	column := min(max(cell%g.columns+right, 0), g.columns-1)
	return row*g.columns + column
}

// draw returns the cells as lines, with a P at one of them.
func (g grid) draw(cells string, at int) string {
	cells = cells[:at] + "P" + cells[at+1:]
	var lines []string
	for row := range g.rows {
		lines = append(lines, strings.Join(strings.Split(cells[row*g.columns:(row+1)*g.columns], ""), " "))
	}
	return strings.Join(lines, "\n")
}
