package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestVary(t *testing.T) {
	for _, c := range []struct {
		args, settings []string
		varied         string
		err            string
	}{
		{[]string{"a.b=[1e-5,1e-4]", "c=x"}, []string{"c=x"}, "[{a.b [1e-5 1e-4] 0 0}]", ""},
		{[]string{`a=["1", 1, {b: [2, 3]}, x y]`}, nil, `[{a ["1" 1 {b: [2, 3]} x y] 0 0}]`, ""},
		{[]string{"a=[[1,2]]", "b=[7]", "c=[]x"}, nil, "", "not valid YAML"},
		{[]string{"a=[[1,2]]", "b=[7]"}, []string{"a=[1, 2]", "b=7"}, "[]", ""},
		{[]string{"a=1e-6..1e-3", "b=0.5..2"}, nil, "[{a [] 1e-06 0.001} {b [] 0.5 2}]", ""},
		{[]string{"a=../data", "b=x..y"}, []string{"a=../data", "b=x..y"}, "[]", ""},
		{[]string{"a=1..1"}, nil, "", "a range goes from"},
		{[]string{"a=0..1"}, nil, "", "a range goes from"},
		{[]string{"a=1..1e999"}, nil, "", "a range goes from"},
		{[]string{"a=1..2", "a=[1,2]"}, nil, "", "a is varied twice"},
		{[]string{"a=[1,1]"}, nil, "", "has 1 twice"},
		{[]string{"a=[]"}, nil, "", "no value"},
	} {
		varied, settings, err := Vary(c.args)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want %q", c.args, err, c.err)
			}
			continue
		}
		if err != nil || fmt.Sprint(varied) != c.varied || !slices.Equal(settings, c.settings) {
			t.Errorf("%q: %v, %q, %v; want %v, %q", c.args, varied, settings, err, c.varied, c.settings)
		}
	}
}

func TestGrid(t *testing.T) {
	points, err := grid([]Varied{{Key: "a", Values: []string{"1", "2"}}, {Key: "b", Values: []string{"x", "y", "z"}}})
	if got, want := fmt.Sprint(points), "[[1 x] [1 y] [1 z] [2 x] [2 y] [2 z]]"; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if points, err := grid(nil); len(points) != 1 || err != nil {
		t.Errorf("without keys: %v, %v", points, err)
	}
	long := Varied{Key: "c", Values: slices.Repeat([]string{"1"}, 1000)}
	if _, err := grid([]Varied{long, long}); err == nil {
		t.Error("a million combinations are no error")
	}
}

func TestDraw(t *testing.T) {
	varied := []Varied{{Key: "lr", Low: 1e-6, High: 1e-2}, {Key: "n", Values: []string{"4", "8"}}}
	points := draw(varied, 200, 1)
	if len(points) != 200 || fmt.Sprint(points) != fmt.Sprint(draw(varied, 200, 1)) || fmt.Sprint(points) == fmt.Sprint(draw(varied, 200, 2)) {
		t.Fatal("what is drawn does not depend on the seed alone")
	}
	below := 0
	for _, p := range points {
		lr, err := strconv.ParseFloat(p[0], 64)
		if err != nil || lr < 1e-6 || lr > 1e-2 {
			t.Fatalf("lr is %s, %v", p[0], err)
		}
		if math.Log10(lr) < -4 {
			below++
		}
	}
	if below < 80 || below > 120 {
		t.Errorf("%d of 200 values are below 1e-4, the middle of the logarithms", below)
	}
	if points := draw(varied[1:], 9, 1); len(points) != 2 || points[0][0] == points[1][0] {
		t.Errorf("a list of two values gives %v", points)
	}
}

func TestNames(t *testing.T) {
	paths := []string{"../x/y.jsonl", "../x y.jsonl", "z/" + strings.Repeat("q", 30)}
	varied := []Varied{{Key: "a.lr", Values: []string{"1e-5", "0.5"}}, {Key: "data.path", Values: paths}}
	got := names(varied, [][]string{{"1e-5", "../x/y.jsonl"}, {"0.5", "../x y.jsonl"}, {"0.5", paths[2]}})
	if want := []string{"lr_1e-5_path_no1", "lr_0.5_path_no2", "lr_0.5_path_no3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = names([]Varied{{Key: "a.lr", Values: []string{"1", "2"}}, {Key: "critic.lr", Low: 1, High: 2}}, [][]string{{"1", "1.5"}})
	if want := []string{"a_lr_1_critic_lr_1.5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
