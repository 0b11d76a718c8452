package explorer

import (
	"slices"
	"testing"
)

// The shares of all explorers hold each row once. A task's ID names its explorer and the row's
// number in the file.
func TestShares(t *testing.T) {
	for _, n := range []int{1, 6, 7, 8} {
		var all []string
		for k, name := range []string{"left", "middle", "right"} {
			share := ShareOf(rows(n), k+1, 3)
			set := &Taskset{Data: share, Explorer: name}
			set.Template.Taskset = "digits"
			for i := range share.Len() {
				task, err := set.task(i)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, task.ID)
			}
		}
		if len(all) != n {
			t.Errorf("%d tasks of %d rows: %v", len(all), n, all)
		}
		if n == 7 {
			want := []string{
				"left:digits/0", "left:digits/3", "left:digits/6", "middle:digits/1", "middle:digits/4", "right:digits/2", "right:digits/5",
			}
			if !slices.Equal(all, want) {
				t.Errorf("got %v, want %v", all, want)
			}
		}
	}
}
