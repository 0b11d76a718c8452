package doctest

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// section describes the plug-ins of a kind, or named declarations.
type section struct {
	title   string
	one     string            // beginning of a plug-in's heading
	catalog *registry.Catalog // nil if the section has only declarations
	about   []string          // declarations whose comments come first
	more    string            // text after these comments
}

var sections = []section{
	{"Advantage functions", "Advantage", registry.Advantages.Catalog, []string{"algorithm/advantage."},
		"`algorithm.advantage_fn` names it, `algorithm.advantage_fn_args` holds its arguments."},
	{"Policy losses", "Policy loss", loss.PolicyLosses.Catalog, []string{"algorithm/loss."},
		"`algorithm.policy_loss_fn` names it, `algorithm.policy_loss_fn_args` holds its arguments."},
	{"KL terms", "KL", loss.KLs.Catalog, []string{"algorithm/loss.KL", "algorithm/loss.KLController", "algorithm/loss.Penalty"},
		"`algorithm.kl_loss_fn` names the term of the loss, `algorithm.kl_penalty_fn` the penalty on rewards; their " +
			"arguments are in `kl_loss_fn_args` and `kl_penalty_fn_args`."},
	{"Entropy terms", "Entropy", loss.Entropies.Catalog, []string{"algorithm/loss.Entropy"},
		"`algorithm.entropy_loss_fn` names it, `algorithm.entropy_loss_fn_args` holds its arguments."},
	{"Aggregation modes", "", nil, []string{"algorithm/loss.AggMode", "algorithm/loss.TokenMean",
		"algorithm/loss.SeqMeanTokenSum", "algorithm/loss.SeqMeanTokenMean",
		"algorithm/loss.SeqMeanTokenSumNorm"}, "`algorithm.loss_agg_mode` sets it for whichever policy loss."},
	{"Sample strategies", "Sample strategy", registry.SampleStrategies.Catalog, []string{"algorithm/sample."},
		"`algorithm.sample_strategy` names it, `algorithm.sample_strategy_args` holds its arguments."},
	{"Rollout correction", "", nil, []string{"algorithm.Correction", "algorithm.Correction.Apply"},
		"`algorithm.rollout_correction` has it, with the keys of [configuration](configuration.md); " +
			"[rollouts](../guide/rollouts.md) says when it is of use."},
	{"Value loss", "", nil, []string{"algorithm/loss.valueLoss"},
		"For algorithms with a critic. `trainer.trainer_config.critic` has its settings: see [configuration](configuration.md)."},
}

// page is the Markdown text of the page.
type page struct {
	strings.Builder
	sources
	t *testing.T
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// declared writes the comment of a declaration.
func (p *page) declared(key string) {
	text := p.comments[key]
	if text == "" {
		p.t.Errorf("%s has no comment", key)
	}
	p.WriteString(markdown(text))
}

// section writes the comments on a kind, a table of its plug-ins, and each plug-in.
func (p *page) section(s section) {
	p.printf("## %s\n\n", s.title)
	for _, key := range s.about {
		p.declared(key)
	}
	p.printf("%s\n\n", s.more)
	if s.catalog == nil {
		return
	}
	p.printf("| name | description |\n|---|---|\n")
	for _, names := range alike(s.catalog) {
		for _, name := range names {
			p.printf("| %s | %s |\n", linkTo(s.heading(names), name), cell(firstSentence(p.explain(s.catalog, name).Doc)))
		}
	}
	p.printf("\n")
	for _, names := range alike(s.catalog) {
		p.plugin(s, names)
	}
}

func (s section) heading(names []string) string { return s.one + " " + strings.Join(names, ", ") }

// plugin writes the plug-ins of one type with the same arguments.
func (p *page) plugin(s section, names []string) {
	p.printf("### %s\n\n", s.heading(names))
	if len(names) > 1 {
		for _, name := range names {
			p.printf("- `%s`: %s\n", name, strings.TrimSpace(markdown(p.explain(s.catalog, name).Doc)))
		}
		p.printf("\n")
	}
	plugin := s.catalog.Default(names[0])
	p.declared(typeKey(plugin))
	p.computed(plugin)
	fields := p.explain(s.catalog, names[0]).Fields
	if len(fields) == 0 {
		p.printf("No arguments.\n\n")
		return
	}
	p.printf("| argument | type | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fields {
		meaning := f.Doc
		if limits := f.Limits(); limits != "" {
			meaning += "; " + limits
		}
		p.printf("| `%s` | %s | `%s` | %s |\n", f.Key, f.Type, f.Default, cell(meaning))
	}
	p.printf("\n")
}

// computed writes where the program computes an advantage.
func (p *page) computed(plugin any) {
	a, ok := plugin.(trinity.Advantage)
	switch {
	case !ok:
	case a.Needs().Batch:
		p.printf("Computed by the trainer, over its batch.")
		if of := needed(a.Needs()); len(of) > 0 {
			p.printf(" Needs: %s.", strings.Join(of, ", "))
		}
		p.printf("\n\n")
	default:
		p.printf("Computed in the pipeline, over whole groups.\n\n")
	}
}

func (p *page) explain(c *registry.Catalog, name string) registry.Info {
	info, err := c.Explain(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return info
}

// alike groups the names of a kind by type, arguments and defaults.
func alike(c *registry.Catalog) [][]string {
	byType := map[string][]string{}
	for _, name := range c.Names() {
		info, _ := c.Explain(name)
		key := fmt.Sprint(typeKey(c.Default(name)), info.Fields)
		byType[key] = append(byType[key], name)
	}
	return slices.SortedFunc(maps.Values(byType), slices.Compare)
}

// typeKey returns the key of a plug-in's type among the comments.
func typeKey(plugin any) string {
	of := reflect.Indirect(reflect.ValueOf(plugin)).Type()
	return strings.TrimPrefix(of.PkgPath(), "github.com/trinity-go/trinity/") + "." + of.Name()
}

var sentenceEnd = regexp.MustCompile(`[^D][^r]\. [A-Z]`) // "Dr. GRPO" does not end at its dot

// firstSentence returns the first sentence of a doc.
func firstSentence(doc string) string {
	if at := sentenceEnd.FindStringIndex(doc); at != nil {
		return doc[:at[1]-2]
	}
	return doc
}

// cell returns a text for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(markdown(text)), "|", `\|`)
}

var notInAnchors = regexp.MustCompile(`[^\w -]`)

// linkTo returns a link to a heading of the page.
func linkTo(heading, text string) string {
	return fmt.Sprintf("[`%s`](#%s)", text, strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
}
