package trainer

import (
	"context"
	"fmt"
	"testing"

	"github.com/trinity-go/trinity"
)

// A step reports the experiences that it trained on, and who dropped the others: the source, the
// corrector, the advantage, or a mask that leaves nothing to learn from.
func TestAStepReportsWhatItTook(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	o.Source = leaving{o.Source}
	o.Corrector = correctFunc(func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
		exps[1].Mask = make([]bool, len(exps[1].Mask)) // as rejected
		return exps, nil, nil
	})
	o.Advantage = advantage{score: func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		groups[0][2].Mask = make([]bool, len(groups[0][2].Mask))
		return []trinity.Group{groups[0][:7]}, nil, nil
	}}
	var got provenance
	o.Recorder = recorder{took: func(_ int64, f provenance) { got = f }}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "[0/t/0/0 0/t/3/0 0/t/4/0 0/t/5/0 0/t/6/0] " +
		"map[advantage:[0/t/7/0] mask:[0/t/2/0] rollout_correction:[0/t/1/0] too old:[0/t/9/0]]"
	if text := fmt.Sprint(got.trained, " ", got.dropped); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// leaving is a source that gives the experiences IDs of their own and leaves one out.
type leaving struct{ trinity.Source }

func (s leaving) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := s.Source.Take(ctx, want)
	for i, e := range taken.Experiences() {
		e.ID = trinity.ExperienceID{Task: "t", Run: i}
	}
	taken.Dropped = map[string][]trinity.ExperienceID{"too old": {{Task: "t", Run: 9}}}
	return taken, err
}
