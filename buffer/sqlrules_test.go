package buffer

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/trinitytest"
)

func put(t *testing.T, s trinity.Sink, step int64, n int) {
	t.Helper()
	if err := s.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step, n)}, Cursor: []byte("1")}); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, b trinity.Source, n int) []*trinity.Experience {
	t.Helper()
	exps, err := trinitytest.Take(t.Context(), b, n, 0)
	if err != nil || len(exps) != n {
		t.Fatalf("took %d, %v; want %d", len(exps), err, n)
	}
	return exps
}

func state(t *testing.T, b trinity.Buffer) trinity.SourceState {
	t.Helper()
	s, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refused fails unless err is one line with the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v, want an error of one line", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// If the answer to a commit is lost, a second Put of the delivery, or of another one, replaces it.
func TestACommitWithoutAnAnswer(t *testing.T) {
	url := fileURL(t.TempDir())
	for _, again := range []int64{2, 3} { // the same delivery, or another
		b := openTest(t, url, trinity.BufferSpec{Name: fmt.Sprint("again ", again), Capacity: 100})
		s := b.Sink("explorer")
		put(t, s, 1, 2)
		l := tables(b)
		before := *l
		lost := trinity.Delivery{Groups: []trinity.Group{group(2, 3)}, Cursor: []byte("1")}
		if _, err := l.Append(t.Context(), newRecord("explorer", 2, lost)); err != nil {
			t.Fatal(err)
		}
		l.records, l.experiences, l.rollouts = before.records, before.experiences, before.rollouts // as if the answer was lost
		put(t, s, again, 1)
		if got := take(t, b, 3); got[2].ID.Step != again {
			t.Errorf("took %v third, want step %d", got[2].ID, again)
		}
		resumed := openTest(t, url, trinity.BufferSpec{Name: fmt.Sprint("again ", again), Capacity: 100})
		if err := resumed.Restore(trinity.SourceState{}); err != nil {
			t.Fatal(err)
		}
		if got := take(t, resumed, 3); got[2].ID.Step != again {
			t.Errorf("after a restart took %v third, want step %d", got[2].ID, again)
		}
		if n, _, err := resumed.Sink("explorer").Resume(t.Context()); err != nil || n != 2 {
			t.Errorf("%d deliveries, %v; want 2", n, err)
		}
	}
}

// A process that is no longer the writer can neither append nor trim.
func TestSQLHasOneWriter(t *testing.T) {
	url := fileURL(t.TempDir())
	open := func() *Queue { return openTest(t, url, trinity.BufferSpec{Capacity: 100}) }
	old := open()
	put(t, old.Sink("explorer"), 1, 2)
	take(t, old, 1)
	young := open()
	if err := young.Restore(trinity.SourceState{}); err != nil {
		t.Fatal(err)
	}
	refused(t, old.Sink("explorer").Put(t.Context(), trinity.Delivery{}), "buffer.db", "another process has become its trainer")
	refused(t, old.Trim(t.Context(), state(t, old)), "another process has become its trainer")
	put(t, young.Sink("explorer"), 2, 1)
	take(t, young, 3)
}

// removed deletes all rows of a buffer: the next call returns an error.
func removed(t *testing.T, url string) {
	spec := trinity.BufferSpec{Name: "removed", Capacity: 100, Retries: 1000, RetryInterval: time.Hour}
	b := openTest(t, url, spec)
	sink := b.Sink("explorer")
	put(t, sink, 1, 3)
	take(t, b, 2)
	state := state(t, b)
	for _, table := range []string{"trinity_buffers WHERE name", "trinity_deliveries WHERE buffer", "trinity_experiences WHERE buffer"} {
		execute(t, b, "DELETE FROM "+table+" = ?", spec.Name)
	}
	for what, err := range map[string]error{"Put": sink.Put(t.Context(), trinity.Delivery{}), "Trim": b.Trim(t.Context(), state)} {
		if err == nil || !strings.Contains(err.Error(), "not there any more") || !strings.Contains(err.Error(), tables(b).db.String()) {
			t.Errorf("%s: %v, want that the buffer is gone", what, err)
		}
	}
}

// execute runs a statement that the buffer does not know of.
func execute(t *testing.T, b *Queue, statement string, args ...any) {
	t.Helper()
	err := tables(b).db.Update(t.Context(), func(ctx context.Context, tx database.Tx) (bool, error) {
		_, err := tx.Exec(ctx, statement, args...)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRemovedSQLBufferIsAnError(t *testing.T) { removed(t, fileURL(t.TempDir())) }

// If somebody removes deliveries or experiences before the trainer reads them, Take returns an
// error.
func TestRemovedRowsAreAnError(t *testing.T) {
	for statement, words := range map[string]string{
		"DELETE FROM trinity_experiences WHERE number = 6": "delivery 1 is missing or incomplete",
		"DELETE FROM trinity_deliveries WHERE record = 1":  "delivery 1 is missing or incomplete",
		"DELETE FROM trinity_deliveries WHERE record = 2":  "delivery 2 is missing or incomplete",
	} {
		url := fileURL(t.TempDir())
		b := openTest(t, url, trinity.BufferSpec{Capacity: 100})
		for step := range int64(3) {
			put(t, b.Sink("explorer"), step, 4)
		}
		execute(t, b, statement)
		b = openTest(t, url, trinity.BufferSpec{Capacity: 100})
		err := b.Restore(trinity.SourceState{})
		if err == nil {
			_, err = trinitytest.Take(t.Context(), b, 12, 0)
		}
		refused(t, err, "buffer.db", words, "was it removed?")
	}
}

func TestSQLTrim(t *testing.T) {
	url := fileURL(t.TempDir())
	b := openTest(t, url, trinity.BufferSpec{Capacity: 100})
	for step := range int64(4) {
		put(t, b.Sink("explorer"), step, 2)
	}
	take(t, b, 5)
	at := state(t, b) // in record 2
	if err := b.Trim(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if kept := countRows(t, b, "experience IS NOT NULL"); kept != 6 {
		t.Errorf("%d experiences are kept, want those of the records 1 to 3: a cursor may stand in the one before", kept)
	}
	refused(t, b.Restore(trinity.SourceState{}), "keeps no record before 1", "later checkpoints exist")
	refused(t, b.Restore(trinity.SourceState{Cursor: []byte(`{"record":5}`)}), "has 4 records", "continues with record 5", "was it removed?")
	b = openTest(t, url, trinity.BufferSpec{Capacity: 100})
	if err := b.Restore(at); err != nil {
		t.Fatal(err)
	}
	if got := b.held(); got != "3 rollouts (explorer may put more)" {
		t.Errorf("it holds %s, want 3 rollouts and the one of which a part was taken", got)
	}
	take(t, b, 3)
}

func countRows(t *testing.T, b *Queue, where string) (n int) {
	t.Helper()
	err := tables(b).db.Update(t.Context(), func(ctx context.Context, tx database.Tx) (bool, error) {
		return false, tx.Row(ctx, "SELECT COUNT(*) FROM trinity_experiences WHERE "+where, nil, &n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Trim works in steps, so that no transaction takes long. A stopped run leaves the rest to the next
// checkpoint.
func TestSQLTrimsInSteps(t *testing.T) {
	url := fileURL(t.TempDir())
	b := openTest(t, url, trinity.BufferSpec{Capacity: 1e6})
	const all = 2*trimRows + 10
	put(t, b.Sink("explorer"), 1, all)
	put(t, b.Sink("explorer"), 2, 1)
	take(t, b, all+1)
	taken := state(t, b)
	trim := func(b *Queue, want int) {
		t.Helper()
		if err := b.Trim(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		if n := countRows(t, b, "experience IS NULL"); n != want {
			t.Errorf("%d of %d rows are trimmed, want %d", n, all, want)
		}
	}
	running, stop := context.WithCancel(t.Context())
	stopped := openUntil(t, running, url, trinity.BufferSpec{Capacity: 1e6})
	stop()
	for !tables(stopped).db.Stopped() {
		time.Sleep(time.Millisecond)
	}
	trim(stopped, trimRows)
	trim(openTest(t, url, trinity.BufferSpec{Capacity: 1e6}), all)
}

// Any SQL client can read the table.
func TestSQLTableIsReadable(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, fileURL(dir), trinity.BufferSpec{Capacity: 100})
	e := group(7, 1)[0]
	e.Prompt, e.Response, e.Versions = "What is 2 + 2?", "4\x00\xff", [2]int64{2, 3}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": 1})
	none := group(7, 1)[0]
	none.ID.Run, none.Reward = 1, trinity.InvalidReward("no verdict")
	if err := b.Sink("explorer").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{{e, none}}}); err != nil {
		t.Fatal(err)
	}
	if got := take(t, b, 2); got[0].Response != e.Response {
		t.Errorf("the response came back as %q", got[0].Response)
	}
	db, err := sql.Open("sqlite", strings.TrimPrefix(fileURL(dir), "sqlite:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var prompt, response, task string
	var step, version, tokens int
	var reward, other sql.NullFloat64
	row := db.QueryRow("SELECT step, task, version, tokens, prompt, response, reward, " +
		"(SELECT reward FROM trinity_experiences WHERE run = 1) FROM trinity_experiences WHERE run = 0")
	if err := row.Scan(&step, &task, &version, &tokens, &prompt, &response, &reward, &other); err != nil {
		t.Fatal(err)
	}
	if step != 7 || task != "t" || version != 3 || tokens != 2 || prompt != e.Prompt ||
		response != "4\uFFFD\uFFFD" || reward.Float64 != 1 || other.Valid {
		t.Errorf("step %d, task %s, version %d, %d tokens, %q → %q, rewards %v, %v", step, task, version, tokens, prompt, response, reward, other)
	}
}

// The error of a timeout says who was waited for.
func TestTimeoutsNameWhoIsWaitedFor(t *testing.T) {
	b := NewQueue(100, 0, nil)
	s := b.Sink("ann")
	put(t, s, 1, 100)
	if err := b.Sink("bob").Pause(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	b.PutTimeout, b.TakeTimeout = time.Millisecond, time.Millisecond
	late := s.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(2, 1)}})
	refused(t, late, "waiting for the trainer to make room", "100 rollouts", "sync_timeout")
	_, err := trinitytest.Take(t.Context(), b, 101, 0)
	refused(t, err, "waiting for the explorer to put 101 experiences",
		"100 rollouts (ann may put more, bob waits for version 3)", "max_read_timeout of 1ms passed")
}

func TestSQLRefusesNewerTables(t *testing.T) {
	dir := t.TempDir()
	openTest(t, fileURL(dir), trinity.BufferSpec{})
	db, err := sql.Open("sqlite", strings.TrimPrefix(fileURL(dir), "sqlite:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE trinity_schema SET version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err = (&sqlOpener{}).OpenBuffer(t.Context(), trinity.BufferSpec{Name: "x", Path: fileURL(dir)})
	refused(t, err, "buffer.db", "version 99", "use the program that made them")
}

// A name that the server would truncate is an error, which names the keys that the name consists
// of.
func TestSQLRefusesLongNames(t *testing.T) {
	_, err := (&sqlOpener{}).OpenBuffer(t.Context(), trinity.BufferSpec{Path: fileURL(t.TempDir()), Name: strings.Repeat("é", 251)})
	refused(t, err, `é"…, has 251 characters`, "project, group, name or buffer.trainer_input.experience_buffer.name")
}

// The error for a server that cannot be reached names the server without the password.
func TestSQLUnreachableServerIsNamed(t *testing.T) {
	for _, url := range []string{"postgresql://ann:s3cret@127.0.0.1:1/rft", "mysql://ann:s3cret@127.0.0.1:1/rft"} {
		_, err := (&sqlOpener{}).OpenBuffer(t.Context(), trinity.BufferSpec{Name: "x", Path: url, Retries: 2, RetryInterval: 1e6})
		refused(t, err, "ann@127.0.0.1:1/rft", "tried 3 times", "refused")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v has the password", err)
		}
	}
}

// Text is stored once: in its column or, if the column cannot hold it exactly, in the experience.
// Earlier versions stored all text in the experience.
func TestSQLText(t *testing.T) {
	for _, c := range []struct {
		text string
		once bool
	}{{"", false}, {"What is 2 + 2?", true}, {"🦆 \r\n ", true}, {"4\x00", false}, {"\xff5", false}} {
		e := group(1, 1)[0]
		e.Prompt, e.Response = c.text, c.text
		var d sqlRows
		if err := d.encode(Record{Groups: []trinity.Group{{e}}}); err != nil {
			t.Fatal(err)
		}
		whole, err := experience.Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(d.rows[0].blob) < len(whole); got != c.once {
			t.Errorf("%q: %d bytes, and %d with the text", c.text, len(d.rows[0].blob), len(whole))
		}
		for _, blob := range [][]byte{d.rows[0].blob, whole} {
			got, err := sqlRow{database.Text(c.text), database.Text(c.text), blob}.decode()
			if err != nil || got.Prompt != c.text || got.Response != c.text {
				t.Errorf("%q came back as %q and %q, %v", c.text, got.Prompt, got.Response, err)
			}
		}
	}
}
