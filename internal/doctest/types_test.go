package doctest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
)

// types writes the table of algorithm types, and each type with its parts.
func (p *page) types() {
	p.printf("## Algorithm types\n\n`algorithm.algorithm_type` names one; every other key of `algorithm` changes one of its parts. ")
	p.printf("The table has the parts as they are when a file names the type alone.\n\n")
	p.printf("| type | what it is | advantage, and where it is computed | policy loss | KL in the loss | entropy | sample " +
		"strategy | `repeat_times` | needs |\n")
	p.printf("|---|---|---|---|---|---|---|---|---|\n")
	names := registry.Algorithms.Names()
	for _, name := range names {
		a := p.build(name)
		p.printf("| %s | %s | `%s`%s | `%s` | `%s` | `%s` | `%s` | %s | %s |\n", linkTo("Type "+name, name),
			cell(firstSentence(p.explain(registry.Algorithms.Catalog, name).Doc)),
			a.Def.Advantage, where(a), a.Def.PolicyLoss, a.Def.KLLoss, a.Def.Entropy, a.Def.SampleStrategy, repeats(a.Def),
			strings.Join(needs(a), ", "))
	}
	p.printf("\n")
	for _, name := range names {
		p.printf("### Type %s\n\n%s", name, markdown(p.explain(registry.Algorithms.Catalog, name).Doc))
		p.printf("```yaml\n%s```\n\n", defaults(p.build(name)))
	}
}

func (p *page) build(name string) *algorithm.Algorithm {
	parts, err := registry.Parts(trinity.Algorithm{Type: name})
	if err != nil {
		p.t.Fatal(err)
	}
	a, err := algorithm.New(parts)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// where returns the place where the program computes the advantage.
func where(a *algorithm.Algorithm) string {
	switch {
	case a.Def.Advantage == "none":
		return ""
	case a.InTrainer() != nil:
		return ", trainer"
	}
	return ", pipeline"
}

// repeats returns the rollouts per task; datasets have none.
func repeats(def *trinity.Algorithm) string {
	if def.Offline {
		return ""
	}
	return fmt.Sprint(def.GroupSize)
}

// needs lists what a run must have in addition to the policy and rewards.
func needs(a *algorithm.Algorithm) []string {
	var out []string
	if a.Def.Offline {
		out = append(out, "a dataset of schema `"+a.Def.Schema+"`")
	}
	of := a.Needs()
	of.Reference = a.NeedsReference
	out = append(out, needed(of)...)
	if strategy, err := registry.SampleStrategies.Build(a.Def.SampleStrategy, a.Def.SampleStrategyArgs); err == nil {
		for _, buffer := range slices.Sorted(maps.Keys(strategy.Needs().Auxiliary)) {
			out = append(out, "auxiliary buffer `"+buffer+"`")
		}
	}
	return out
}

// needed describes trinity.Needs in words.
func needed(of trinity.Needs) []string {
	var out []string
	for _, n := range []struct {
		is   bool
		what string
	}{
		{of.Values, "critic"},
		{of.Reference, "reference model"},
		{of.Teacher, "teacher"},
		{of.Entropies, "entropies"},
		{of.Discriminators, "entropy discriminators"},
		{of.GreedyReward, "a greedy rollout of every task"},
	} {
		if n.is {
			out = append(out, n.what)
		}
	}
	return out
}

// defaults returns the YAML that is equivalent to the type alone. It has only the arguments that
// differ from the defaults of the parts.
func defaults(a *algorithm.Algorithm) string {
	var b strings.Builder
	d := a.Def
	fmt.Fprintf(&b, "algorithm:\n  algorithm_type: %s\n", a.Def.Type)
	if !d.Offline {
		fmt.Fprintf(&b, "  repeat_times: %d\n", d.GroupSize)
	}
	for _, part := range []struct {
		key, name string
		args      map[string]any
	}{
		{"sample_strategy", d.SampleStrategy, d.SampleStrategyArgs},
		{"advantage_fn", d.Advantage, d.AdvantageArgs},
		{"policy_loss_fn", d.PolicyLoss, d.PolicyLossArgs},
		{"kl_penalty_fn", d.KLPenalty, nil},
		{"kl_loss_fn", d.KLLoss, d.KLLossArgs},
		{"entropy_loss_fn", d.Entropy, d.EntropyArgs},
	} {
		fmt.Fprintf(&b, "  %s: %s\n", part.key, part.name)
		if len(part.args) > 0 {
			fmt.Fprintf(&b, "  %s_args: {", part.key)
			for i, key := range slices.Sorted(maps.Keys(part.args)) {
				fmt.Fprintf(&b, "%s%s: %v", strings.Repeat(", ", min(i, 1)), key, part.args[key])
			}
			b.WriteString("}\n")
		}
	}
	if loss.Aggregation(a.Loss.Policy) != nil {
		fmt.Fprintf(&b, "  loss_agg_mode: %s\n", a.Loss.Mode)
	}
	return b.String()
}

// differences writes the table of departures from Trinity-RFT, sorted by the departing part.
func (p *page) differences() {
	p.printf("## Differences from Trinity-RFT\n\nAll that is meant to be other than there, as the comments of the code say it.\n\n")
	p.printf("| what | how it differs, and why |\n|---|---|\n")
	rows := 0
	row := func(what, text string) {
		for _, d := range departures(text) {
			rows++
			p.printf("| %s | %s |\n", what, cell(d))
		}
	}
	for _, name := range registry.Algorithms.Names() {
		row(linkTo("Type "+name, "type "+name), p.explain(registry.Algorithms.Catalog, name).Doc)
	}
	of := map[string]bool{}
	for _, s := range sections {
		if s.catalog != nil {
			for _, names := range alike(s.catalog) {
				key := typeKey(s.catalog.Default(names[0]))
				if !of[key] {
					row(linkTo(s.heading(names), strings.ToLower(s.one)+" "+strings.Join(names, ", ")), p.comments[key])
				}
				of[key] = true
			}
		}
	}
	for _, kind := range registry.Kinds() {
		catalog, _ := registry.Find(kind)
		for _, name := range catalog.Names() {
			key := typeKey(catalog.Default(name))
			if !of[key] {
				row(strings.ReplaceAll(strings.TrimSuffix(kind, "_fn"), "_", " ")+" `"+name+"`", p.comments[key])
			}
			of[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.comments)) {
		if !of[key] {
			row("`"+key+"`", p.comments[key])
		}
	}
	if rows != p.sources.departures {
		p.t.Errorf("%q occurs %d times in the sources, and %d times in doc comments of declarations and docs of algorithm "+
			"types: move it there, on one line", unlike, p.sources.departures, rows)
	}
}
