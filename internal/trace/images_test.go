package trace

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// The images of answers are in the trace with their places, and no text has any.
func TestImagesOfATrainStep(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	images := []trinity.Image{{Digest: digest, At: 1, Len: 2, Grid: [3]int{1, 2, 4}}}
	e := trinity.Experience{
		ID: trinity.ExperienceID{Task: "t"}, Tokens: []int32{1, 2, 2, 3}, Mask: []bool{false, false, false, true}, Images: images,
	}
	text := e
	text.ID.Run, text.Images = 1, nil
	dir := t.TempDir()
	w, err := New(Options{Dir: dir, Text: func(int32) string { return "x" }, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	w.Trained(trinity.Trained{Step: 1, Experiences: []trinity.TrainedExperience{{Experience: e}, {Experience: text}}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	answers, err := ReadAnswers(dir, 1)
	if err != nil || len(answers) != 2 {
		t.Fatal(len(answers), err)
	}
	if got := answers[0].Shown(); !reflect.DeepEqual(got, images) {
		t.Errorf("got %+v, want %+v", got, images)
	}
	if answers[1].Images != "" || answers[1].Shown() != nil {
		t.Errorf("a text has the images %q", answers[1].Images)
	}
	for _, damaged := range []JSON{"{", `[{"digest":"x"}]`, JSON(`[{"digest":"` + digest + `","at":3,"len":2,"grid":[1,1,1]}]`),
		JSON(`[{"digest":"` + digest + `","at":2,"len":2,"grid":[1,1,1]}]`)} {
		answers[0].Images = damaged
		if got := answers[0].Shown(); got != nil {
			t.Errorf("%s: %+v", damaged, got)
		}
	}
}

// A chat has an image as the template wrote it, and not each of its places.
func TestImagesInAChat(t *testing.T) {
	words := map[int32]string{0: "<|im_start|>", 1: "user", 2: "\n", 3: "<|image_pad|>", 4: "What?", 5: "<|im_end|>"}
	s := Spell([]int32{0, 1, 2, 3, 3, 3, 4, 5}, make([]bool, 8), words).Show([]trinity.Image{{At: 3, Len: 3}})
	chat := s.Chat(func(places []int) (text string) {
		for _, t := range places {
			text += s.Texts[t]
		}
		return text
	})
	if want := []Said{{"user", "<|image_pad|>What?"}}; !reflect.DeepEqual(chat, want) {
		t.Errorf("got %q, want %q", chat, want)
	}
}
