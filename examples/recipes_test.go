package examples

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recipe is one run of an example, as the page of recipes shows it. Machines differ, so no test compares minutes and
// memory.
type recipe struct {
	Commit  string    `json:"commit"`
	Config  string    `json:"config"`
	Metric  string    `json:"metric"`   // of the curve
	Curve   []float64 `json:"curve"`    // of the last stage
	Eval    string    `json:"eval"`     // metric of the evaluation; "" if there is none
	Held    []float64 `json:"held_out"` // its first and last value
	Minutes float64   `json:"cpu_minutes"`
	GiB     float64   `json:"gib"` // of resident memory, at most
}

// recipes are the examples on the page, the shortest first. Of those that nobody has measured as a recipe, two values of
// the results are the curve and what was held out, as tests measured them.
var recipes = []struct{ dir, file, command, curve, held string }{
	{dir: "own_reward", file: "own_reward.yaml", command: "go run ./examples/own_reward"},
	{dir: "own_environment", file: "own_environment.yaml", command: "go run ./examples/own_environment"},
	{dir: "number_guess", file: "number_guess.yaml"},
	{dir: "frozen_lake", file: "frozen_lake.yaml"},
	{dir: "code_reward", file: "code.yaml"},
	{dir: "quickstart", file: "quickstart.yaml"},
	{dir: "curriculum", file: "curriculum.yaml"},
	{dir: "connect_the_dots", file: "connect_the_dots.yaml"},
	{dir: "support", file: "support.yaml"},
	{dir: "grpo_json_smollm2", file: "json.yaml"},
	{dir: "grpo_arithmetic_smollm2", file: "arithmetic.yaml", curve: "LoRA seed 0 steps", held: "LoRA seed 0 held out"},
	{dir: "calculator_smollm2", file: "calculator.yaml", curve: "seed 0 steps", held: "seed 0 right"},
	{dir: "exec_openai", file: "exec.yaml", curve: "seed 0 steps", held: "seed 0 right"},
}

// recipeOf returns the recipe of an example; nil if its results have no curve.
func recipeOf(r results, curve, held string) *recipe {
	if r.Recipe == nil && r.Values[curve] != nil {
		return &recipe{Commit: r.Commit, Metric: "the reward", Curve: r.Values[curve], Held: r.Values[held]}
	}
	return r.Recipe
}

const recipesPage = "docs/guide/recipes.md"

// The page of recipes and its curves show what the results of the examples say. With -update the test writes them.
func TestRecipesShowResults(t *testing.T) {
	t.Chdir("..")
	text, err := os.ReadFile(recipesPage)
	if err != nil {
		t.Fatal(err)
	}
	var table, sections strings.Builder
	table.WriteString("\n" + head("recipe", "model", "reward", "held out", "CPU minutes", "GiB"))
	wanted := map[string][]byte{}
	for _, of := range recipes {
		config, err := os.ReadFile(filepath.Join("examples", of.dir, of.file))
		if err != nil {
			t.Fatal(err)
		}
		r := recipeOf(readResults(t, "examples/"+of.dir), of.curve, of.held)
		if r == nil {
			t.Errorf("examples/%s/results.json has no recipe: TRINITY_HEAVY=1 go test ./examples -run Recipes/%s -update measures it",
				of.dir, of.dir)
			continue
		}
		learned := ends10(r.Curve)
		fmt.Fprintf(&table, "| [%s](#%s) | %s | %s | %s | %s | %s |\n",
			of.dir, of.dir, modelOf(string(config)), change(learned), held(r.Held), twoDigits(r.Minutes), twoDigits(r.GiB))
		program := of.command
		if program == "" {
			program = "trinity"
		}
		fmt.Fprintf(&sections, "\n## %s\n\n%s\n\n", of.dir, comment(string(config)))
		fmt.Fprintf(&sections, "![%s of %s by step: %s](recipes/%s.svg)\n\n", r.Metric, of.dir, change(learned), of.dir)
		fmt.Fprintf(&sections, "`%s run --config examples/%s/%s`\n\n", program, of.dir, of.file)
		fmt.Fprintf(&sections, "[%s](../../examples/%s), measured at commit `%s`%s.\n", of.dir, of.dir, r.Commit, evaluatedBy(r.Eval))
		wanted[of.dir+".svg"] = drawn(r)
	}
	named := map[string]string{"recipes": table.String(), "curves": sections.String()}
	if want := withTables(t, string(text), named); want != string(text) {
		if !*update {
			t.Errorf("%s does not show the results: go test ./examples -run RecipesShowResults -update writes it", recipesPage)
		} else if err := os.WriteFile(recipesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holdFiles(t, strings.TrimSuffix(recipesPage, ".md"), wanted)
}

// holdFiles compares the files of a directory with those that it should have, or writes them with -update.
func holdFiles(t *testing.T, dir string, wanted map[string][]byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range wanted {
		path := filepath.Join(dir, name)
		got, err := os.ReadFile(path)
		switch {
		case bytes.Equal(got, want):
		case !*update:
			t.Errorf("%s is not the curve of the results (%v): go test ./examples -run RecipesShowResults -update draws it", path, err)
		default:
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if wanted[e.Name()] == nil {
			t.Errorf("%s/%s belongs to no recipe", dir, e.Name())
		}
	}
}

// comment returns the text of the comment with which a configuration begins.
func comment(config string) string {
	var all []string
	for line := range strings.Lines(config) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		all = append(all, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return strings.Join(all, "\n")
}

// modelOf says which model a configuration trains.
func modelOf(config string) string {
	if strings.Contains(config, "SmolLM2-135M-Instruct") {
		return "SmolLM2-135M-Instruct"
	}
	return "made from scratch"
}

// ends10 are the means of the first and the last tenth of a curve.
func ends10(curve []float64) []float64 {
	n := max(1, len(curve)/10)
	return []float64{mean(curve[:n]), mean(curve[len(curve)-n:])}
}

func held(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return change(values)
}

// evaluatedBy says which metric was held out.
func evaluatedBy(metric string) string {
	if metric == "" {
		return ""
	}
	return "; held out is `" + metric + "`"
}

// twoDigits writes a number with two digits that count; one that nobody has measured is 0.
func twoDigits(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v < 10:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// drawn returns a curve as an SVG file. Its colours can be read on a light and on a dark page.
func drawn(r *recipe) []byte {
	const width, height, left, top, bottom = 560.0, 160.0, 44.0, 12.0, 26.0
	low, high := min(0, slices.Min(r.Curve)), max(1, slices.Max(r.Curve))
	x := func(i float64) float64 { return left + (width-left-12)*i/float64(max(1, len(r.Curve)-1)) }
	y := func(v float64) float64 { return top + (height-top-bottom)*(high-v)/(high-low) }
	var out strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "+
		"font-family=\"sans-serif\" font-size=\"12\" fill=\"#808080\">\n", width, height, width, height)
	fmt.Fprintf(&out, "<title>%s by step</title>\n", r.Metric)
	for _, v := range []float64{low, (low + high) / 2, high} {
		fmt.Fprintf(&out, "<path d=\"M%g %.1fH%g\" stroke=\"#808080\" stroke-opacity=\".3\"/>\n", left, y(v), width-12)
		fmt.Fprintf(&out, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%.2g</text>\n", left-6, y(v)+4, v)
	}
	var path, smooth strings.Builder
	share := min(1, 20/float64(len(r.Curve))) // of the newest value in the moving average
	ema := r.Curve[0]
	for i, v := range r.Curve {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		ema += share * (v - ema)
		fmt.Fprintf(&path, "%s%.1f %.1f", letter, x(float64(i)), y(v))
		fmt.Fprintf(&smooth, "%s%.1f %.1f", letter, x(float64(i)), y(ema))
	}
	for _, line := range []struct{ d, style string }{{path.String(), `stroke-opacity=".5"`}, {smooth.String(), `stroke-width="2"`}} {
		fmt.Fprintf(&out, "<path d=\"%s\" fill=\"none\" stroke=\"#2f81f7\" %s/>\n", line.d, line.style)
	}
	fmt.Fprintf(&out, "<text x=\"%g\" y=\"%g\">1</text><text x=\"%g\" y=\"%g\" text-anchor=\"end\">step %d</text>\n</svg>\n",
		left, height-8, width-12, height-8, len(r.Curve))
	return []byte(out.String())
}

// rounded keeps four digits of each number.
func rounded(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		out = append(out, math.Round(v*1e4)/1e4)
	}
	return out
}
