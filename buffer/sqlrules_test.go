package buffer

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/experience"
)

func put(t *testing.T, s trinity.Sink, step int64, n int) {
	t.Helper()
	if err := s.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step, n)}, Cursor: []byte("1")}); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, b trinity.Source, n int) []*trinity.Experience {
	t.Helper()
	exps, err := b.Take(t.Context(), n, 0)
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

// refused wants an error of one line with the words.
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

// A delivery whose commit was answered by a broken connection is not put a second time.
func TestSQLPutsNoDeliveryTwice(t *testing.T) {
	b := openTest(t, fileURL(t.TempDir()), trinity.BufferSpec{Capacity: 100})
	s := b.Sink("explorer").(*sqlSink)
	put(t, s, 1, 2)
	s.delivery-- // as though nobody had said that it is there
	put(t, s, 1, 2)
	put(t, s, 2, 1)
	if got := take(t, b, 3); got[2].ID.Step != 2 {
		t.Errorf("took %v third, want step 2", got[2].ID)
	}
}

func TestSQLHasOneOfEach(t *testing.T) {
	url := fileURL(t.TempDir())
	open := func() *SQL { return openTest(t, url, trinity.BufferSpec{Capacity: 100}) }
	first, second := open(), open()
	put(t, first.Sink("explorer"), 1, 2)
	take(t, first, 1)
	take(t, second, 1)
	_, err := first.Take(t.Context(), 1, 0)
	refused(t, err, "buffer.db", "another process has become its trainer")

	old := first.Sink("explorer")
	put(t, old, 2, 1)
	put(t, second.Sink("explorer"), 3, 1)
	refused(t, old.Put(t.Context(), trinity.Delivery{}), "another process has become explorer explorer")
	refused(t, old.Pause(t.Context(), 9), "another process")
}

// removed has everything of a buffer taken out of its database: whoever comes to it is told so at once.
func removed(t *testing.T, url string) {
	spec := trinity.BufferSpec{Name: "removed", Capacity: 100, Retries: 1000, RetryInterval: time.Hour}
	b := openTest(t, url, spec)
	sink := b.Sink("explorer")
	put(t, sink, 1, 3)
	take(t, b, 2)
	state, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"trinity_buffers WHERE name", "trinity_explorers WHERE buffer", "trinity_experiences WHERE buffer"} {
		err := b.db.Update(t.Context(), func(tx database.Tx) (bool, error) {
			_, err := tx.Exec(t.Context(), "DELETE FROM "+table+" = ?", spec.Name)
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, take1 := b.Take(t.Context(), 1, 0) // of what it has read before
	_, take9 := b.Take(t.Context(), 9, 0)
	for what, err := range map[string]error{
		"Put": sink.Put(t.Context(), trinity.Delivery{}), "Pause": sink.Pause(t.Context(), 9), "Take 1": take1, "Take 9": take9, "Trim": b.Trim(state), "Restore": b.Restore(state),
	} {
		if err == nil || !strings.Contains(err.Error(), "not there any more") || !strings.Contains(err.Error(), b.db.String()) {
			t.Errorf("%s: %v, want that the buffer is gone", what, err)
		}
	}
}

func TestSQLBufferThatIsRemoved(t *testing.T) { removed(t, fileURL(t.TempDir())) }

func TestSQLTrim(t *testing.T) {
	url := fileURL(t.TempDir())
	b := openTest(t, url, trinity.BufferSpec{Capacity: 100})
	put(t, b.Sink("explorer"), 1, 4)
	take(t, b, 3)
	state, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Trim(state); err != nil {
		t.Fatal(err)
	}
	refused(t, b.Restore(trinity.SourceState{}), "keeps none before 4", "set another name")
	refused(t, b.Restore(trinity.SourceState{Cursor: []byte(`{"taken":5}`)}), "has 4 experiences", "after experience 5")
	if err := b.Restore(state); err != nil {
		t.Fatal(err)
	}
	if s, err := b.server.status(t.Context()); err != nil || s.rollouts != 1 {
		t.Errorf("it holds %v, %v; want 1 rollout", s, err)
	}
	take(t, b, 1)
}

// Trim goes step by step, so that no transaction takes long; what a run that is stopped leaves is trimmed with the next checkpoint.
func TestSQLTrimsInSteps(t *testing.T) {
	b := openTest(t, fileURL(t.TempDir()), trinity.BufferSpec{Capacity: 1e6})
	const all = 2*trimRows + 10
	put(t, b.Sink("explorer"), 1, all)
	take(t, b, all)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		stop context.Context
		want int
	}{{stopped, trimRows}, {nil, all}} {
		b.db.Stop = c.stop
		if err := b.Trim(state(t, b)); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := b.db.Update(t.Context(), func(tx database.Tx) (bool, error) {
			return false, tx.Row(t.Context(), "SELECT COUNT(*) FROM trinity_experiences WHERE experience IS NULL", nil, &n)
		})
		if err != nil || n != c.want {
			t.Errorf("%d of %d rows are trimmed, %v; want %d", n, all, err, c.want)
		}
	}
}

// People read the table with whatever reads SQL.
func TestSQLTableIsReadable(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, fileURL(dir), trinity.BufferSpec{Capacity: 100})
	e := group(7, 1)[0]
	e.Prompt, e.Response, e.Versions, e.Reward = "What is 2 + 2?", "4\x00\xff", [2]int64{2, 3}, trinity.NewReward(map[string]float64{"accuracy": 1})
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
	row := db.QueryRow("SELECT step, task, version, tokens, prompt, response, reward, (SELECT reward FROM trinity_experiences WHERE run = 1) FROM trinity_experiences WHERE run = 0")
	if err := row.Scan(&step, &task, &version, &tokens, &prompt, &response, &reward, &other); err != nil {
		t.Fatal(err)
	}
	if step != 7 || task != "t" || version != 3 || tokens != 2 || prompt != e.Prompt || response != "4\uFFFD\uFFFD" || reward.Float64 != 1 || other.Valid {
		t.Errorf("step %d, task %s, version %d, %d tokens, %q → %q, rewards %v, %v", step, task, version, tokens, prompt, response, reward, other)
	}
}

// What is late is said with who is to blame.
func TestSQLWaitsForSomebody(t *testing.T) {
	b := openTest(t, fileURL(t.TempDir()), trinity.BufferSpec{Capacity: 100})
	s := b.Sink("ann")
	put(t, s, 1, 100)
	b.putTimeout = time.Millisecond
	refused(t, s.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(2, 1)}}), "waiting for the trainer to make room", "100 rollouts", "sync_timeout")
	if err := b.Sink("bob").Pause(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(trinity.SourceState{}); err != nil {
		t.Fatal(err)
	}
	b.TakeTimeout = time.Millisecond
	_, err := b.Take(t.Context(), 101, 0)
	refused(t, err, "waiting for the explorer to put 101 experiences", "100 rollouts (ann may put more, bob waits for version 3)", "max_read_timeout of 1ms passed")
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
	address, err := database.Parse(fileURL(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenSQL(t.Context(), address, trinity.BufferSpec{Name: "x"})
	refused(t, err, "buffer.db", "version 99", "use the one that made them")
}

// A name that would be cut off is refused, with the keys that it is made of.
func TestSQLNameThatIsTooLong(t *testing.T) {
	address, err := database.Parse(fileURL(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenSQL(t.Context(), address, trinity.BufferSpec{Name: strings.Repeat("é", 251)})
	refused(t, err, `é"…, has 251 characters`, "project, group, name or buffer.trainer_input.experience_buffer.name")
}

// A server that cannot be reached is named, without the password.
func TestSQLServerThatIsNotThere(t *testing.T) {
	for _, url := range []string{"postgresql://ann:s3cret@127.0.0.1:1/rft", "mysql://ann:s3cret@127.0.0.1:1/rft"} {
		address, err := database.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenSQL(t.Context(), address, trinity.BufferSpec{Name: "x", Retries: 2, RetryInterval: 1e6})
		refused(t, err, "ann@127.0.0.1:1/rft", "tried 3 times", "refused")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v has the password", err)
		}
	}
}

// Text is kept once: by its column, or where that cannot have it exactly by the experience, which had all of it in earlier versions.
func TestSQLText(t *testing.T) {
	for _, c := range []struct {
		text string
		once bool
	}{{"", false}, {"What is 2 + 2?", true}, {"🦆 \r\n ", true}, {"4\x00", false}, {"\xff5", false}} {
		e := group(1, 1)[0]
		e.Prompt, e.Response = c.text, c.text
		var d sqlDelivery
		if err := d.encode(trinity.Delivery{Groups: []trinity.Group{{e}}}); err != nil {
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
