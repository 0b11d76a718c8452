package view

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/trinity-go/trinity/config"
)

//go:embed export.html
var exportSource string

var export = template.Must(template.New("export").Parse(exportSource))

// exportedSteps is how many train steps are exported unless one is asked for.
const exportedSteps = 5

// Export returns a part of a page of HTML with answers and their tokens: of the step that the options
// name, or of a few steps from the first to the last.
func Export(dir string, o Options) (template.HTML, error) {
	first, err := Read(dir, o)
	if err != nil {
		return "", err
	}
	pages := []*Page{first}
	if o.Step == 0 {
		pages = nil
		for _, o.Step = range spread(first.Steps, exportedSteps) {
			p, err := Read(dir, o)
			if err != nil {
				return "", err
			}
			pages = append(pages, p)
		}
	}
	steps := make([]exported, len(pages))
	for i, p := range pages {
		steps[i] = p.export()
	}
	steps[len(steps)-1].Open = true
	var out strings.Builder
	err = export.Execute(&out, steps)
	return template.HTML(out.String()), err
}

// spread returns at most n of the steps, the first and the last among them.
func spread(steps []int64, n int) []int64 {
	if len(steps) <= n {
		return steps
	}
	some := make([]int64, n)
	for i := range some {
		some[i] = steps[i*(len(steps)-1)/(n-1)]
	}
	return some
}

// exported is a train step as the template shows it.
type exported struct {
	Step     int64
	Summary  string
	Open     bool
	Groups   []exportedGroup
	Failures []string
}

type exportedGroup struct {
	Task        string
	ExploreStep int64
	Prompt      string
	Answers     []exportedAnswer
}

type exportedAnswer struct {
	Name, Facts string
	Tokens      []exportedToken
}

type exportedToken struct{ Class, Title, Text string }

func (p *Page) export() exported {
	out := exported{Step: p.Step, Summary: p.summary()}
	for _, g := range p.Groups {
		group := exportedGroup{Task: config.Printable(g.Task), ExploreStep: g.ExploreStep, Prompt: lines(p.prompt(g.Answers[0]))}
		for _, a := range g.Answers {
			group.Answers = append(group.Answers, exportedAnswer{a.name(), a.facts(), p.tokens(a)})
		}
		out.Groups = append(out.Groups, group)
	}
	for _, f := range p.Failures {
		head, why := failed(f)
		out.Failures = append(out.Failures, head+" "+why)
	}
	return out
}

// tokens returns the tokens of an answer, shaded by the derivative of the first optimizer step.
func (p *Page) tokens(a *Answer) (out []exportedToken) {
	var grads, now []float32
	if len(a.Updates) > 0 {
		grads, now = a.Updates[0].DLogprob, a.Updates[0].Now
	}
	most := 0.0
	for _, d := range grads {
		most = max(most, math.Abs(float64(d)))
	}
	for t := int(a.PromptTokens); t < len(a.Tokens); t++ {
		token := exportedToken{Class: "dim", Text: lines(p.tokenText(a.Tokens[t]))}
		if t < len(grads) && grads[t] != 0 {
			token.Class = shade(float64(grads[t]), most)
		}
		token.Title = fmt.Sprintf("place %d, token %d", t, a.Tokens[t])
		for _, stream := range []struct {
			name   string
			values []float32
		}{
			{"sampled", a.Logprobs}, {"now", now}, {"before", a.OldLogprobs}, {"reference", a.RefLogprobs}, {"advantage", a.Advantages},
			{"derivative", grads}, {"entropy", a.Entropies}, {"value", a.Values},
		} {
			if t < len(stream.values) {
				token.Title += fmt.Sprintf("\n%s %s", stream.name, at(stream.values, t))
			}
		}
		out = append(out, token)
	}
	return out
}

// shade returns the class of a token by its derivative; most is the largest in the answer.
func shade(derivative, most float64) string {
	class, level := "up", 3
	if derivative > 0 { // the loss falls when the token becomes less likely
		class = "down"
	}
	if share := math.Abs(derivative) / most; share < 1 {
		level = 1 + int(3*share)
	}
	return fmt.Sprint(class, level)
}
