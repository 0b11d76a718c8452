package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Varied is a key that a sweep varies: over values, or over a range.
type Varied struct {
	Key       string
	Values    []string // YAML
	Low, High float64  // of a range, for a Varied without Values
}

// Vary separates key=value arguments: key=[a,b] and key=1e-6..1e-3 are varied, all others, and lists
// of one value, are settings of every trial.
func Vary(args []string) (varied []Varied, settings []string, err error) {
	for _, arg := range args {
		key, text, _ := strings.Cut(arg, "=")
		v := Varied{Key: strings.TrimSpace(key)}
		if bounds := interval.FindStringSubmatch(text); bounds != nil {
			v.Low, _ = strconv.ParseFloat(bounds[1], 64)
			v.High, _ = strconv.ParseFloat(bounds[2], 64)
			if !(0 < v.Low && v.Low < v.High && v.High <= math.MaxFloat64) {
				return nil, nil, fmt.Errorf("%s: a range goes from a number above 0 to a greater one, such as 1e-6..1e-3", arg)
			}
		} else if v.Values, err = values(text); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", arg, err)
		}
		switch {
		case (v.Key == "name" || v.Key == "seed") && (len(v.Values) > 1 || v.High > 0):
			return nil, nil, fmt.Errorf("%s: the sweep names its runs and counts their seeds itself: give one value, and --seeds for more seeds",
				arg)
		case v.Values == nil && v.High == 0:
			settings = append(settings, arg)
		case len(v.Values) == 1:
			settings = append(settings, v.Key+"="+v.Values[0])
		case slices.ContainsFunc(varied, func(other Varied) bool { return other.Key == v.Key }):
			return nil, nil, fmt.Errorf("%s: %s is varied twice", arg, v.Key)
		default:
			varied = append(varied, v)
		}
	}
	return varied, settings, nil
}

var interval = regexp.MustCompile(`^\s*([0-9][0-9.eE+-]*?)\.\.([0-9][0-9.eE+-]*)\s*$`)

// values returns the items of a list in YAML; nil if the text is no list.
func values(text string) (out []string, err error) {
	var doc yaml.Node
	if !strings.HasPrefix(strings.TrimSpace(text), "[") {
		return nil, nil
	}
	if err := yaml.Load([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("the list is not valid YAML: %w", err)
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, errors.New("the list has no value")
	}
	for _, item := range list.Content {
		value := item.Value
		if item.Kind != yaml.ScalarNode {
			item.Style |= yaml.FlowStyle
			text, err := yaml.Dump(item)
			if err != nil {
				return nil, err
			}
			value = strings.TrimSpace(string(text))
		} else if item.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			text, err := json.Marshal(value) // YAML contains JSON
			if err != nil {
				return nil, err
			}
			value = string(text)
		}
		if slices.Contains(out, value) {
			return nil, fmt.Errorf("the list has %s twice", value)
		}
		out = append(out, value)
	}
	return out, nil
}

// grid returns all combinations of the values, the last key fastest.
func grid(varied []Varied) (points [][]string, err error) {
	points = [][]string{nil}
	for _, v := range varied {
		if v.Values == nil {
			return nil, fmt.Errorf("%s is a range, from which only --search random draws: give a list of values", v.Key)
		}
		if len(points)*len(v.Values) > maxPoints {
			return nil, fmt.Errorf("the lists have more than %d combinations: use --search random --max-runs N", maxPoints)
		}
		var next [][]string
		for _, p := range points {
			for _, value := range v.Values {
				next = append(next, append(slices.Clone(p), value))
			}
		}
		points = next
	}
	return points, nil
}

// maxPoints bounds the combinations of values.
const maxPoints = 10_000

// draw returns n different combinations by a seed; fewer if there are not so many. A value of a range
// is log-uniform and has three digits.
func draw(varied []Varied, n int, seed uint64) (points [][]string) {
	random := rand.New(rand.NewPCG(seed, 0x7377656570))
	for tries := 0; len(points) < n && tries < 100*n; tries++ {
		var p []string
		for _, v := range varied {
			if v.Values != nil {
				p = append(p, v.Values[random.IntN(len(v.Values))])
				continue
			}
			low, high := math.Log(v.Low), math.Log(v.High)
			p = append(p, fmt.Sprintf("%.3g", math.Exp(low+random.Float64()*(high-low))))
		}
		if !slices.ContainsFunc(points, func(other []string) bool { return slices.Equal(other, p) }) {
			points = append(points, p)
		}
	}
	return points
}

// names returns a name for each point, made of the keys and the values, such as lr_1e-5. A key is
// called by its last part, if that is its own.
func names(varied []Varied, points [][]string) (out []string) {
	keys, ends := make([]string, len(varied)), map[string]int{}
	for i, v := range varied {
		keys[i] = v.Key[strings.LastIndexByte(v.Key, '.')+1:]
		ends[keys[i]]++
	}
	for _, p := range points {
		var words []string
		for i, v := range varied {
			key := keys[i]
			if ends[key] > 1 {
				key = strings.ReplaceAll(v.Key, ".", "_")
			}
			words = append(words, key+"_"+v.word(p[i]))
		}
		out = append(out, strings.Join(words, "_"))
	}
	return out
}

// word returns a value as it stands in the name of a run: its place in the list if it is long, or
// like another one.
func (v *Varied) word(value string) string {
	word := plain(value)
	alike := func(other string) bool { return other != value && plain(other) == word }
	if word == "" || len(word) > 20 || slices.ContainsFunc(v.Values, alike) {
		return "no" + fmt.Sprint(1+slices.Index(v.Values, value))
	}
	return word
}

// plain returns a text without what does not stand in names of runs.
func plain(text string) string { return strings.Trim(unplain.ReplaceAllString(text, "-"), "-.") }

var unplain = regexp.MustCompile(`[^\pL\pN.+_-]+`)
