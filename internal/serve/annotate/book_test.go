package annotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// names are the prompts of a book in tests.
const names = "pqrstuvw"

// openBook opens a book with n pairs: prompt p with answers <b>p1 and p2, prompt q with <b>q1 and
// q2, …
func openBook(t *testing.T, dir string, terms Terms, n int) *Book {
	t.Helper()
	var pairs []Pair
	for _, c := range names[:n] {
		pairs = append(pairs, newPair(Prompt{Text: string(c)}, "<b>"+string(c)+"1", string(c)+"2"))
	}
	if terms.Lease == 0 {
		terms.Lease = time.Minute
	}
	b, err := Open(dir, pairs, terms)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // some tests have closed it before
	return b
}

// pairOf returns the pair of a prompt.
func pairOf(b *Book, prompt string) Pair { return b.pairs[strings.Index(names, prompt)] }

// say records a decision on the pair of a prompt.
func say(t *testing.T, b *Book, prompt, annotator string, v Verdict) {
	t.Helper()
	if err := b.Decide(Decision{Pair: pairOf(b, prompt).ID, Annotator: annotator, Verdict: v}); err != nil {
		t.Fatal(err)
	}
}

// next returns the prompt that an annotator gets, "" for none.
func next(t *testing.T, b *Book, annotator string) string {
	t.Helper()
	s, err := b.Next(annotator)
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return s.Prompt.Text
}

func TestAnnotatorsGetPairsInTurn(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 2, Lease: time.Minute}, 3)
	now := time.Unix(0, 0)
	b.now = func() time.Time { return now }
	want := func(step, annotator, prompt string) {
		t.Helper()
		if got := next(t, b, annotator); got != prompt {
			t.Fatalf("%s: %s gets %q, want %q", step, annotator, got, prompt)
		}
	}
	want("the first", "ann", "p")
	want("a second annotator gets the pair", "bob", "p")
	want("two annotators have the pair", "cid", "q")
	want("asked again", "ann", "p")
	say(t, b, "p", "ann", First)
	want("decided", "ann", "q")
	say(t, b, "p", "bob", Skip)
	want("a skip is not a judgement", "bob", "r")
	want("so a third annotator gets the pair once it is free", "cid", "q")
	now = now.Add(2 * time.Minute)
	want("an expired lease stays with a silent annotator if nobody else wants the pair", "cid", "q")
	want("other annotators get the free pairs", "dan", "p")
	now = now.Add(2 * time.Minute)
	want("leases have ended", "eve", "p")
	want("and the pair is taken", "dan", "q")
	say(t, b, "p", "dan", Second) // a decision without a lease counts too
	want("nobody gets a pair with enough judgements", "eve", "q")
	want("an annotator does not get a skipped pair again", "bob", "r")
}

func TestAnnotatorsGetNothingWhenAllIsJudged(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 1)
	if got := next(t, b, "ann"); got != "p" {
		t.Fatal(got)
	}
	if got := next(t, b, "bob"); got != "" {
		t.Errorf("bob gets %q, which ann is judging", got)
	}
	say(t, b, "p", "ann", Skip)
	if got := next(t, b, "ann"); got != "" {
		t.Errorf("ann gets %q, which she skipped", got)
	}
	if got := next(t, b, "bob"); got != "p" {
		t.Errorf("bob gets %q, want the pair that ann skipped", got)
	}
}

func TestUndoReturnsTheLastDecision(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 2)
	edited := "better"
	if err := b.Decide(Decision{Pair: pairOf(b, "p").ID, Annotator: "ann", Verdict: First, Ratings: [2]int{4, 1},
		Edits: [2]*string{&edited, ptr("p2")}}); err != nil {
		t.Fatal(err)
	}
	say(t, b, "q", "ann", Tie)
	for _, want := range []string{"q", "p"} {
		s, err := b.Undo("ann")
		if err != nil || s == nil || s.Prompt.Text != want {
			t.Fatalf("undo gives %+v, %v, want %s", s, err, want)
		}
		if want == "p" && (s.Before.Ratings != [2]int{4, 1} || *s.Before.Edits[0] != edited || s.Before.Edits[1] != nil) {
			t.Errorf("the decision before is %+v", s.Before)
		}
		if got := next(t, b, "ann"); got != want {
			t.Errorf("after the undo ann gets %q, want %q", got, want)
		}
	}
	if s, err := b.Undo("ann"); s != nil || err != nil {
		t.Errorf("undo of nothing gives %+v, %v", s, err)
	}
	if p := b.Progress("ann"); p.Judged != 0 || p.Mine != 0 {
		t.Errorf("%+v", p)
	}
}

func TestRepeatedDecisionCountsOnce(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 1)
	say(t, b, "p", "ann", First)
	say(t, b, "p", "ann", First) // the acknowledgement was lost
	if p := b.Progress("ann"); p.Judged != 1 {
		t.Errorf("%+v", p)
	}
	if err := b.Decide(Decision{Pair: pairOf(b, "p").ID, Annotator: "ann", Verdict: Second}); !errors.Is(err, ErrDecided) {
		t.Errorf("another decision on the same pair: %v", err)
	}
}

// A repeated verdict with other ratings or edits replaces the first one, also after the book is
// opened again.
func TestRepeatedDecisionReplacesRatings(t *testing.T) {
	dir, better, best := t.TempDir(), "better", "best"
	b := openBook(t, dir, Terms{Overlap: 2}, 1)
	pair := pairOf(b, "p")
	for _, d := range []Decision{
		{}, {Ratings: [2]int{5, 1}}, {Ratings: [2]int{5, 1}}, {Ratings: [2]int{5, 1}, Edits: [2]*string{&better, nil}},
		{Ratings: [2]int{4, 1}, Edits: [2]*string{&best, nil}}, {Ratings: [2]int{4, 1}, Edits: [2]*string{&best, &pair.Answers[1]}},
	} {
		d.Pair, d.Annotator, d.Verdict = pair.ID, "ann", First
		if err := b.Decide(d); err != nil {
			t.Fatal(err)
		}
	}
	say(t, b, "p", "bob", Tie)
	check := func(b *Book) {
		t.Helper()
		got := b.decided[0]
		if len(got) != 2 || got[0].Ratings != [2]int{4, 1} || got[0].Edits[0] == nil || *got[0].Edits[0] != best ||
			got[0].Edits[1] != nil || len(b.history["ann"]) != 1 {
			t.Errorf("kept %+v, history %v", got, b.history)
		}
	}
	check(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := openBook(t, dir, Terms{Overlap: 2}, 1)
	check(again)
	if shown, err := again.Undo("ann"); err != nil || shown.Before == nil || shown.Before.Ratings != [2]int{4, 1} ||
		len(again.decided[0]) != 1 {
		t.Errorf("undone: %+v, %v", shown, err)
	}
}

func TestMistakesAreErrors(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 1)
	ok := Decision{Pair: pairOf(b, "p").ID, Annotator: "ann", Verdict: First}
	for want, change := range map[string]func(*Decision){
		`no pair "x"`:             func(d *Decision) { d.Pair = "x" },
		"0 characters":            func(d *Decision) { d.Annotator = "" },
		"65 characters":           func(d *Decision) { d.Annotator = strings.Repeat("é", 65) },
		"none of them a space":    func(d *Decision) { d.Annotator = " ann" },
		"want printable":          func(d *Decision) { d.Annotator = "a\nb" },
		`verdict "undo"`:          func(d *Decision) { d.Verdict = undo },
		"a rating of 6":           func(d *Decision) { d.Ratings[1] = 6 },
		"a rating of -1":          func(d *Decision) { d.Ratings[0] = -1 },
		"edited answer is empty":  func(d *Decision) { d.Edits[1] = ptr(" ") },
		`the annotator's name`:    func(d *Decision) { d.Annotator = "\xff" },
		`verdict ""`:              func(d *Decision) { d.Verdict = "" },
		`annotator's name "ann "`: func(d *Decision) { d.Annotator = "ann " },
	} {
		d := ok
		change(&d)
		err := b.Decide(d)
		var m Mistake
		if !errors.As(err, &m) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a mistake with %q", err, want)
		}
	}
	if p := b.Progress("ann"); p.Judged != 0 {
		t.Errorf("mistakes were recorded: %+v", p)
	}
}

// Acknowledged decisions survive a kill. The test copies the book at that moment and opens the
// copy.
func TestDecisionsSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, Terms{Overlap: 1}, 3)
	say(t, b, "p", "ann", First)
	say(t, b, "q", "bob", Second)
	say(t, b, "r", "bob", Tie)
	if _, err := b.Undo("bob"); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := openBook(t, killed, Terms{Overlap: 1}, 3)
	if got := fmt.Sprint(next(t, again, "ann"), next(t, again, "bob")); got != "r" {
		t.Errorf("the next pairs are %q, want r for ann and nothing for bob", got)
	}
	if s, err := again.Undo("bob"); err != nil || s.Prompt.Text != "q" {
		t.Errorf("bob's undo gives %+v, %v, want q", s, err)
	}
	say(t, again, "q", "bob", Tie)
	again.Close()
	fewer := openBook(t, killed, Terms{Overlap: 1}, 1)
	if p := fewer.Progress(""); p.Pairs != 1 || p.Done != 1 || p.Elsewhere != 1 {
		t.Errorf("with one pair: %+v", p)
	}
	fewer.Close()
}

// Open returns an error if no decision is on one of the pairs.
func TestOpenRefusesOtherData(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, Terms{Overlap: 1}, 3)
	say(t, b, "p", "ann", First)
	b.Close()
	if _, err := Open(dir, openBook(t, t.TempDir(), Terms{}, 3).pairs[1:], Terms{}); err == nil ||
		!strings.Contains(err.Error(), "none of its 1 decisions is on a pair of these data") {
		t.Errorf("got %v", err)
	}
	b = openBook(t, dir, Terms{Overlap: 1}, 3)
	if _, err := b.Undo("ann"); err != nil {
		t.Fatal(err)
	}
	b.Close()
	openBook(t, dir, Terms{}, 0)
}

func TestOpenReportsUnwritablePlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(dir, nil, Terms{}); err == nil || !strings.HasSuffix(err.Error(), "let this user write there, or give another --out") {
			t.Errorf("got %v", err)
		}
	}
}

func TestOpenLocksTheBook(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, Terms{}, 1)
	if _, err := Open(dir, nil, Terms{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("open in process ", os.Getpid())) {
		t.Errorf("got %v", err)
	}
	b.Close()
	openBook(t, dir, Terms{}, 1)
}

// Open truncates a damaged end of the decisions and reports it.
func TestTornDecisionIsCutOff(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, Terms{Overlap: 1}, 2)
	for range 2 {
		shown, err := b.Next("ann")
		if err == nil {
			err = b.Decide(Decision{Pair: shown.ID, Annotator: "ann", Verdict: First})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p := b.Progress(""); p.Done != 2 || p.Torn != 0 {
		t.Errorf("whole: %+v", p)
	}
	b.Close()
	log := filepath.Join(dir, "decisions", "00000000000000000000.log")
	info, err := os.Stat(log)
	if err == nil {
		err = os.Truncate(log, info.Size()-3)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := openBook(t, dir, Terms{Overlap: 1}, 2).Progress(""); p.Done != 1 || p.Torn < 50 {
		t.Errorf("cut: %+v", p)
	}
}

// A failed lock is not reported as a lock that another process holds.
func TestOpenReportsFailedLocks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".lock_book"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, nil, Terms{})
	if err == nil || strings.Contains(err.Error(), "open in") || !strings.Contains(err.Error(), "cannot be kept in "+dir) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// Each answer stands left in half of the pairs for every annotator, and in the same pairs each
// time.
func TestSidesAreBalanced(t *testing.T) {
	b, same, other := &Book{terms: Terms{Seed: 3}}, &Book{terms: Terms{Seed: 3}}, &Book{terms: Terms{Seed: 4}}
	differ := 0
	for _, who := range []string{"ann", "bob"} {
		lefts := 0
		for i := range 1000 {
			id := fmt.Sprint(i)
			lefts += b.Left(id, who)
			if same.Left(id, who) != b.Left(id, who) {
				t.Fatal("drawn anew")
			}
			if b.Left(id, who) != b.Left(id, "cid") || b.Left(id, who) != other.Left(id, who) {
				differ++
			}
		}
		if lefts < 420 || lefts > 580 {
			t.Errorf("%s sees the second answer left in %d of 1000 pairs", who, lefts)
		}
	}
	if differ < 1300 {
		t.Errorf("of 2000 pairs %d differ for another annotator or seed, want about 1500", differ)
	}
}

func TestPositionsAreCounted(t *testing.T) {
	b := openBook(t, t.TempDir(), Terms{Overlap: 1}, 8)
	for _, c := range names {
		p := pairOf(b, string(c))
		say(t, b, string(c), "ann", [2]Verdict{First, Second}[b.Left(p.ID, "ann")])
	}
	say(t, b, "p", "bob", Tie)
	if p := b.Progress("bob"); p.LeftWins != 8 || p.Wins != 8 || p.Judged != 9 || p.Mine != 1 || p.Done != 8 {
		t.Errorf("%+v", p)
	}
}

// Five annotators work concurrently. Every pair gets exactly the wanted number of judgements, each
// from a different annotator, and all judgements are on the disk.
func TestManyAnnotatorsWorkAtOnce(t *testing.T) {
	var pairs []Pair
	for i := range 30 {
		pairs = append(pairs, newPair(Prompt{Text: fmt.Sprint(i)}, "a", "b"))
	}
	dir := t.TempDir()
	terms := Terms{Overlap: 2, Lease: time.Minute}
	b, err := Open(dir, pairs, terms)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, who := range []string{"ann", "bob", "cid", "dan", "eve"} {
		all.Go(func() {
			for {
				s, err := b.Next(who)
				if err != nil || s == nil {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if err := b.Decide(Decision{Pair: s.ID, Annotator: who, Verdict: First}); err != nil {
					t.Error(err)
					return
				}
				b.Progress(who)
			}
		})
	}
	all.Wait()
	b.Close()
	again, err := Open(dir, pairs, terms)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for i, decided := range again.decided {
		if len(decided) != 2 || decided[0].Annotator == decided[1].Annotator {
			t.Errorf("pair %d: %+v", i, decided)
		}
	}
}
