package view

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

//go:embed export.html
var exportSource string

var export = template.Must(template.New("export").Parse(exportSource))

// exportedSteps is how many train steps are exported unless one is asked for.
const exportedSteps = 5

// Export returns a part of a page of HTML with answers and their tokens: of the step that the options
// name, or of a few steps from the first to the last. A step that cannot be read is a line in the page
// and in damaged; if none can be read, err is the first one's.
func Export(dir string, o Options) (page template.HTML, damaged, err error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return "", nil, err
	}
	path, err := find(run, dir)
	read, steps := readStep, []int64{o.Step}
	if none := err; errors.As(none, new(noStep)) && o.Step == 0 {
		read, err = func(string, Options) (*Page, error) { return readFailures(run, o.Task, none) }, nil
	} else if err == nil && o.Step == 0 {
		steps, err = trace.Steps(path)
		steps = spread(steps, exportedSteps)
	}
	if err != nil {
		return "", nil, err
	}
	var pages []exported
	var lines []string
	room := maxImages
	for _, o.Step = range steps {
		p, failed := read(path, o)
		if failed != nil {
			if err == nil {
				err = failed
			}
			if !errors.As(failed, new(noTask)) {
				lines = append(lines, failed.Error())
			}
			continue
		}
		page, left := p.export(&room)
		pages, lines = append(pages, page), append(lines, left...)
		if p.Damaged != nil {
			lines = append(lines, strings.Split(p.Damaged.Error(), "\n")...)
		}
	}
	if pages == nil {
		return "", nil, err
	}
	pages[len(pages)-1].Open = true
	slices.Sort(lines)
	lines = slices.Compact(lines) // failures are read for each step
	if lines != nil {
		damaged = errors.New(strings.Join(lines, "\n"))
	}
	var out strings.Builder
	err = export.Execute(&out, struct {
		Steps   []exported
		Damaged []string
	}{pages, lines})
	return template.HTML(out.String()), damaged, err
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
	Title, Summary string
	Open           bool
	Groups         []exportedGroup
	Failures       []string
}

type exportedGroup struct {
	Task        string
	ExploreStep int64
	Prompt      string
	Truth       string
	Images      []exportedImage
	Answers     []exportedAnswer
}

type exportedAnswer struct {
	Name, Facts string
	Verdict     trace.Verdict
	Mark        string // of the verdict
	Tokens      []exportedToken
}

type exportedToken struct{ Class, Title, Text string }

// export returns the page for the template, with at most room bytes of images, and lines about what it
// leaves out.
func (p *Page) export(room *int) (out exported, left []string) {
	title := p.title()
	out = exported{Title: strings.ToUpper(title[:1]) + title[1:], Summary: p.summary()}
	for _, g := range p.Groups {
		group := exportedGroup{Task: safetext.Printable(g.Task), ExploreStep: g.ExploreStep, Prompt: lines(p.prompt(g.Answers[0]))}
		group.Truth = lines(g.Answers[0].Truth)
		var more []string
		group.Images, more = p.images(g, room)
		left = append(left, more...)
		for _, a := range g.Answers {
			group.Answers = append(group.Answers, exportedAnswer{a.name(), a.facts(), a.verdict(), marks[a.verdict()], p.tokens(a)})
		}
		out.Groups = append(out.Groups, group)
	}
	for _, f := range p.Failures {
		head, why := failed(f)
		if f.Truth != "" {
			why += "\nquestion: " + lines(f.Question) + "\nright answer: " + lines(f.Truth)
		}
		out.Failures = append(out.Failures, head+" "+why)
	}
	return out, left
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
	for _, t := range a.places(int(a.PromptTokens), len(a.Tokens)) {
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
