package experience

import (
	"bytes"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

const digest = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// full returns an experience with a value in every field that is kept.
func full() *trinity.Experience {
	return &trinity.Experience{
		ID:     trinity.ExperienceID{Step: -3, Task: "taskset/7", Run: 2, Turn: 1},
		Tokens: []int32{1, -1, 70000, 4, 5, 6, 7, 8, 9}, Mask: []bool{false, true, false, true, true, false, false, true, true},
		Logprobs: []float32{0, -0.5, 0, -1, -2, 0, 0, -50, -0.25}, Advantages: []float32{0, 1, 0, 1, 1, 0, 0, -1, 1}, Returns: make([]float32, 9),
		RefLogprobs: []float32{0, 1, 2, 3, 4, 5, 6, 7, 8}, TeacherLogprobs: []float32{8, 7, 6, 5, 4, 3, 2, 1, float32(math.Inf(-1))},
		Teacher:   "big",
		PromptLen: 1, EnvironmentLen: 2, Temperature: 0.7, Versions: [2]int64{3, 9}, Truncated: trinity.ResponseTruncated,
		Reward:  trinity.Reward{Value: 1.5, Valid: true, Reason: "why", Parts: map[string]float64{"accuracy": 1, "format_score": 0.5}},
		Metrics: map[string]float64{"turns": 2}, Info: map[string]any{"env_state_hash": "x", "nested": map[string]any{"a": []any{1.0, "b"}}},
		Prompt: "max 7 3", Response: "ünï", Truth: "2", Chosen: true, IsExpert: true,
		Images: []trinity.Image{{Digest: digest, At: 0, Len: 1, Grid: [3]int{1, 2, 2}}, {Digest: digest, At: 5, Len: 2, Grid: [3]int{1, 4, 300}}},
		Origin: trinity.Origin{Source: "external:gpt-x", Part: "judge"},
	}
}

func TestRoundTrip(t *testing.T) {
	for name, e := range map[string]*trinity.Experience{
		"all fields":      full(),
		"none but tokens": {Tokens: []int32{1}, Mask: []bool{false}},
		"empty, not nil": {Tokens: []int32{1}, Mask: []bool{false}, Metrics: map[string]float64{}, Info: map[string]any{},
			Reward: trinity.Reward{Parts: map[string]float64{}}},
		"an unscored one": {Tokens: []int32{1, 2}, Mask: []bool{false, true}, Reward: trinity.InvalidReward("no answer")},
		"runs": {Tokens: make([]int32, 300), Mask: make([]bool, 300),
			Advantages: slices.Concat(make([]float32, 10), slices.Repeat([]float32{0.5}, 289), []float32{float32(math.Inf(1))})},
		"a whole mask set": {Tokens: make([]int32, 17),
			Mask: append([]bool{false}, []bool{true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true}...)},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := Append([]byte("before"), e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data[len("before"):])
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("%v\ngot  %+v\nwant %+v", err, got, e)
			}
		})
	}
}

// Every field of an experience is kept, except for those that live for one train step. This fails
// for a new field that Append does not know.
func TestNoFieldIsForgotten(t *testing.T) {
	v := reflect.ValueOf(*full())
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Tag.Get("json") != "-" && v.Field(i).IsZero() {
			t.Errorf("field %s is not tried", f.Name)
		}
	}
}

// testdata/before_images.tgd was written by the version before images. It must be read as ever.
func TestFilesWithoutImagesAreRead(t *testing.T) {
	data, err := os.ReadFile("testdata/before_images.tgd")
	if err != nil {
		t.Fatal(err)
	}
	want := delivery()
	for _, g := range want.Groups {
		for _, e := range g {
			e.Images, e.Origin = nil, trinity.Origin{}
		}
	}
	if got, err := DecodeDelivery(data); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if again, err := AppendDelivery(nil, want); err != nil || !bytes.Equal(again, data) {
		t.Errorf("without images an experience has other bytes than before: %v", err)
	}
}

// The places of two images have no token in common, and no place has a token that training learns.
func TestImagesHaveTheirPlace(t *testing.T) {
	grid := [3]int{1, 2, 2}
	one := func(at, n int) trinity.Image { return trinity.Image{Digest: digest, At: at, Len: n, Grid: grid} }
	for name, c := range map[string]struct {
		images []trinity.Image
		want   string
	}{
		"sampled":    {[]trinity.Image{one(2, 2)}, "in the mask"},
		"overlap":    {[]trinity.Image{one(5, 2), one(6, 1)}, "want a place in 7 to 9"},
		"unsorted":   {[]trinity.Image{one(5, 1), one(2, 1)}, "want a place"},
		"no tokens":  {[]trinity.Image{one(2, 0)}, "is 0 tokens"},
		"behind":     {[]trinity.Image{one(9, 1)}, "want a place in 0 to 9"},
		"long":       {[]trinity.Image{one(6, math.MaxInt)}, "want a place in 0 to 9"},
		"no digest":  {[]trinity.Image{{At: 2, Len: 1, Grid: grid}}, "has the digest"},
		"a path":     {[]trinity.Image{{Digest: "sha256:" + strings.Repeat("../", 21) + "a", At: 2, Len: 1, Grid: grid}}, "has the digest"},
		"no patches": {[]trinity.Image{{Digest: digest, At: 2, Len: 1}}, "a grid of [0 0 0]"},
	} {
		e := full()
		e.Images = c.images
		if err := e.Check(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), e.ID.String()) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	if err := full().Check(); err != nil {
		t.Error(err)
	}
}

func TestBrokenData(t *testing.T) {
	whole, err := Append(nil, full())
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := Decode(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were taken for an experience", n, len(whole))
		}
	}
	e := full()
	e.Returns = make([]float32, 10)
	more, err := Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(more); err == nil {
		t.Error("a run longer than the tokens was read")
	}
	if _, err := Decode(append(whole, 1)); err == nil {
		t.Error("a byte too many was ignored")
	}
	if _, err := Decode(append(whole[:len(whole)-1:len(whole)-1], 200, 0, tagEnd)); err == nil {
		t.Error("an unknown field was ignored")
	}
}

func FuzzDecode(f *testing.F) {
	data, err := Append(nil, full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}

// BenchmarkAppend and BenchmarkDecode use 512 tokens with text; 256 of them are the prompt.
func long() *trinity.Experience {
	e := full()
	e.Tokens, e.Mask, e.Logprobs, e.Advantages = make([]int32, 512), make([]bool, 512), make([]float32, 512), make([]float32, 512)
	e.Returns, e.RefLogprobs, e.TeacherLogprobs, e.Info = nil, nil, nil, nil
	for i := 256; i < 512; i++ {
		e.Mask[i], e.Logprobs[i], e.Advantages[i] = true, -float32(i), 0.5
	}
	return e
}

func BenchmarkAppend(b *testing.B) {
	e, dst := long(), []byte(nil)
	for b.Loop() {
		dst, _ = Append(dst[:0], e)
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkDecode(b *testing.B) {
	data, err := Append(nil, long())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
