package buffer

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// copied copies the data of a server and returns a function that restores the copy. Restoring loses
// what came later, like a power cut of a server that flushes each second.
func copied(t *testing.T, b *Queue) (restore func()) {
	t.Helper()
	each := func(statements string) {
		t.Helper()
		for _, table := range []string{"trinity_buffers", "trinity_deliveries", "trinity_experiences"} {
			for s := range strings.SplitSeq(statements, ";") {
				execute(t, b, strings.ReplaceAll(s, "{}", table))
			}
		}
	}
	each("CREATE TABLE copy_of_{} AS SELECT * FROM {}")
	return func() { t.Helper(); each("DELETE FROM {}; INSERT INTO {} SELECT * FROM copy_of_{}") }
}

// If the database has lost acknowledged records, the trainer neither appends nor trims. A new
// trainer resumes from the remaining records, unless the checkpoint needs later ones.
func TestLostRecordsAreAnError(t *testing.T) {
	url := fileURL(t.TempDir())
	open := func() *Queue { return openTest(t, url, trinity.BufferSpec{Capacity: 10}) }
	b := open()
	sink := b.Sink("explorer")
	put(t, sink, 1, 1)
	take(t, b, 1)
	early, restore := state(t, b), copied(t, b)
	put(t, sink, 2, 1)
	put(t, sink, 3, 0)
	take(t, b, 1)
	late := state(t, b)
	restore()
	for range 2 { // it stays so
		for _, err := range []error{sink.Put(t.Context(), trinity.Delivery{}), b.Trim(t.Context(), late)} {
			refused(t, err, "buffer ", "it has 1 deliveries, and has acknowledged 3", "the server has lost", "restart trainer and explorers")
		}
	}
	b = open()
	refused(t, b.Restore(late), "was it removed?", "Restore a copy")
	if err := b.Restore(early); err != nil {
		t.Fatal(err)
	}
	sink = b.Sink("explorer")
	if n, cursor, err := sink.Resume(t.Context()); err != nil || n != 1 || string(cursor) != "1" {
		t.Fatalf("the explorer resumes after delivery %d at %s, %v", n, cursor, err)
	}
	put(t, sink, 4, 1)
	if got := take(t, b, 1); got[0].ID.Step != 4 {
		t.Errorf("took %v, want step 4", got[0].ID)
	}
}
