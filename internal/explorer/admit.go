package explorer

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// admit returns an error unless the experiences are different ones of one run. It numbers their turns
// in the order in which the workflow returned them, because parallel calls have no other order that
// is always the same.
func admit(exps []*trinity.Experience, run trinity.ExperienceID) error {
	for i, e := range exps {
		if err := e.Check(); err != nil {
			return err
		}
		own := run
		own.Turn = e.ID.Turn
		if e.ID != own {
			return fmt.Errorf("the workflow returned experience %s from run %d of task %s in step %d: leave the id that the model gives",
				e.ID, run.Run, run.Task, run.Step)
		}
		if slices.Contains(exps[:i], e) {
			return fmt.Errorf("the workflow returned experience %s twice", e.ID)
		}
		e.ID.Turn = i
	}
	return nil
}
