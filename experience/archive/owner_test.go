package archive

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// teller is a run whose lines are kept.
type teller struct {
	Run
	lines []string
}

func newTeller(name string) *teller {
	r := &teller{Run: Run{Name: name, Dir: "runs/" + name}}
	r.Say = func(line string) { r.lines = append(r.lines, line) }
	return r
}

// said is what the run was told since it was asked last.
func (r *teller) said() string {
	defer func() { r.lines = nil }()
	return strings.Join(r.lines, "\n")
}

// writes opens the archive, writes steps with so many experiences each, and ends.
func (r *teller) writes(t *testing.T, path string, n int, steps ...int64) {
	t.Helper()
	w := New(path, r.Run)
	for _, step := range steps {
		if err := w.Write(t.Context(), step, ofStep(step, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTwoRunsAtOnePath(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one, two := newTeller("one"), newTeller("two")
		one.writes(t, path, 1, 1, 2, 3)
		two.writes(t, path, 2, 1, 2)
		if got, want := two.said(), path+" is of run one in runs/one: it is moved to "+filepath.Base(path)+".1"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
		one.writes(t, path, 1, 3, 4) // it was killed in step 3
		if got, want := one.said(), "it is moved to "+filepath.Base(path)+".2\n"+path+" is this run's own: it is moved back from "+filepath.Base(path)+".1"; !strings.HasSuffix(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
		if got := written(t, path); got != "1.0 2.0 3.0 4.0" {
			t.Errorf("run one has %s", got)
		}
		two.writes(t, path, 2, 3)
		if got := written(t, path); got != "1.0 1.1 2.0 2.1 3.0 3.1" {
			t.Errorf("run two has %s", got)
		}
		if got := written(t, path+".1"); got != "1.0 2.0 3.0 4.0" {
			t.Errorf("run one has now %s", got)
		}
	})
}

// A kill while an archive is moved loses neither: whoever comes next finds its own.
func TestMovesThatWereKilled(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one, two := newTeller("one"), newTeller("two")
		one.writes(t, path, 1, 1, 2)
		record, err := os.ReadFile(path + ownerFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Rename(path, path+".2"), os.WriteFile(path+".2"+ownerFile, record, 0o644)); err != nil {
			t.Fatal(err)
		}
		two.writes(t, path, 2, 1)
		if got := written(t, path) + " " + written(t, path+".2"); got != "1.0 1.1 1.0 2.0" {
			t.Errorf("%s after a kill behind the renaming", got)
		}
		if err := os.WriteFile(path+".1"+ownerFile, record, 0o644); err != nil { // the record came first, and that was all
			t.Fatal(err)
		}
		one.writes(t, path, 1, 3)
		if got := written(t, path); got != "1.0 2.0 3.0" {
			t.Errorf("%s after a kill before the renaming", got)
		}
	})
}

// A record that a kill has left behind, when the archive was moved back, is not taken for that of what is moved aside later.
func TestARecordThatIsLeftIsNobodys(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one, two := newTeller("one"), newTeller("two")
		one.writes(t, path, 1, 1, 2)
		record, err := os.ReadFile(path + ownerFile)
		if err := errors.Join(err, os.WriteFile(path+".1"+ownerFile, record, 0o644)); err != nil {
			t.Fatal(err)
		}
		one.writes(t, path, 2, 1, 2) // begins anew: steps 1 and 2 are moved to the name with the record
		two.writes(t, path, 1, 1)
		one.writes(t, path, 2, 3)
		if got := written(t, path); got != "1.0 1.1 2.0 2.1 3.0 3.1" {
			t.Errorf("the run goes on with %s", got)
		}
	})
}

func TestAnArchiveInUseIsRefused(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one, two := New(path, newTeller("one").Run), New(path, newTeller("two").Run)
		if err := one.Write(t.Context(), 1, ofStep(1, 1)); err != nil {
			t.Fatal(err)
		}
		for _, refuse := range []func() error{two.Lock, two.Claim, func() error { return two.Write(t.Context(), 1, ofStep(1, 1)) }} {
			if err := refuse(); err == nil || !strings.Contains(err.Error(), path+" is being written by run one in runs/one (process ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		}
		if err := errors.Join(two.Close(), one.Close(), two.Lock(), two.Close()); err != nil {
			t.Error(err)
		}
	})
}

// What nobody says is theirs is gone on with, as it was before archives had owners.
func TestAnArchiveOfNobodyIsGoneOnWith(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one := newTeller("one")
		newTeller("earlier").writes(t, path, 1, 1, 2, 3)
		if err := os.Remove(path + ownerFile); err != nil {
			t.Fatal(err)
		}
		one.writes(t, path, 1, 3)
		if got := written(t, path) + one.said(); got != "1.0 2.0 3.0" {
			t.Errorf("got %s", got)
		}
	})
}

// An archive of nobody makes room, as another's does, for one that comes back.
func TestAnArchiveOfNobodyMakesRoom(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		one := newTeller("one")
		one.writes(t, path, 1, 1, 2)
		newTeller("two").writes(t, path, 2, 1)
		if err := os.Remove(path + ownerFile); err != nil {
			t.Fatal(err)
		}
		one.writes(t, path, 1, 3)
		if got := written(t, path) + ", " + written(t, path+".2"); got != "1.0 2.0 3.0, 1.0 1.1" {
			t.Errorf("got %s", got)
		}
		if got, want := one.said(), path+" is nobody's, as far as it says: it is moved to "+filepath.Base(path)+".2\n"; !strings.HasPrefix(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}

// Of an archive that somebody has moved away nothing is left to go on with: another run does not begin behind its cursor.
func TestAnArchiveThatIsGoneLeavesNothing(t *testing.T) {
	inEveryFile(t, func(t *testing.T, path string) {
		newTeller("one").writes(t, path, 1, 1)
		if err := errors.Join(os.WriteFile(path+StateFile, []byte("{}"), 0o644), os.RemoveAll(path)); err != nil {
			t.Fatal(err)
		}
		two := New(path, newTeller("two").Run)
		if err := two.Claim(); err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		for _, ending := range beside {
			if there, err := exists(path + ending); err != nil || there {
				t.Errorf("%s is left, %v", path+ending, err)
			}
		}
	})
}

// Who goes on is told what somebody else has made of the archive; a kill, or a step of which nothing was left, is no damage.
func TestMissingStepsAreSaid(t *testing.T) {
	damages := map[string]func(t *testing.T, path string) error{
		"": func(*testing.T, string) error { return nil },
		"4": func(t *testing.T, path string) error { // in part
			last := fileOf(t, path, 4)
			info, err := os.Stat(last)
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, ".parquet") {
				return os.Remove(last)
			}
			return os.Truncate(last, info.Size()-3)
		},
		"1 to 2, 4": func(_ *testing.T, path string) error { return os.RemoveAll(path) },
	}
	for missing, damage := range damages {
		inEveryFile(t, func(t *testing.T, path string) {
			r := newTeller("one")
			r.writes(t, path, 2, 1, 2, 4, 5)
			r.writes(t, path, 2, 5) // after a kill
			r.writes(t, path, 2, 5)
			if got := r.said(); got != "" {
				t.Fatalf("said %s", got)
			}
			w := New(path, r.Run) // is killed in step 5 again, when it has made room
			if err := errors.Join(w.Claim(), w.to.(*owned).open(t.Context(), 5), w.Close()); err != nil {
				t.Fatal(err)
			}
			if err := damage(t, path); err != nil {
				t.Fatal(err)
			}
			want := ""
			if missing != "" {
				want = path + " was damaged, shortened or removed: of steps " + missing + " there is nothing, or not all; the archive goes on with step 5"
			}
			if missing == "4" && !strings.HasSuffix(path, ".parquet") { // some of the step is there
				want = strings.Replace(want, "the archive goes on", "it is moved to "+filepath.Base(path)+".1, and the archive begins again", 1)
			}
			for _, want := range []string{want, ""} { // it is said once
				r.writes(t, path, 2, 5)
				if got := r.said(); got != want {
					t.Errorf("said %q, want %q", got, want)
				}
			}
		})
	}
}

// A step's mark or line that was changed hides what is behind it: nothing of that is cut off.
func TestAStepThatHidesOthersIsMovedAside(t *testing.T) {
	for form, at := range map[string]int{".jsonl": len(`{"id":{"step":`), ".jsonl.gz": len(gz.prefix), ".jsonl.zst": len(zst.prefix)} { // where the step is
		t.Run(form, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy"+form)
			r := newTeller("one")
			r.writes(t, path, 1, 1, 2)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			r.writes(t, path, 1, 3, 4)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[info.Size()+int64(at)] ^= 4 // step 3 is 7
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{path + " was damaged, shortened or removed: of steps 3 to 4 there is nothing, or not all; it is moved to copy" + form + ".1, and the archive begins again with step 5", ""} {
				r.writes(t, path, 1, 5)
				if got := r.said(); got != want {
					t.Errorf("said %q, want %q", got, want)
				}
			}
			if got, err := os.ReadFile(path + ".1"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("moved aside are %d bytes, %v; want the %d that there were", len(got), err, len(data))
			}
			if got := written(t, path); got != "5.0" {
				t.Errorf("it has %s", got)
			}
		})
	}
}

// A step whose own end is damaged is not cut off there, though all that is known of it is that it begins.
func TestAStepThatHidesItsEndIsMovedAside(t *testing.T) {
	length := func(mark int, data []byte, at int64) { data[at+int64(mark)+8]-- } // a byte less than there are
	for form, damage := range map[string]func(data []byte, at int64){
		".jsonl":     func(data []byte, _ int64) { data[len(data)-1] = ' ' }, // of step 4
		".jsonl.gz":  func(data []byte, at int64) { length(len(gz.prefix), data, at) },
		".jsonl.zst": func(data []byte, at int64) { length(len(zst.prefix), data, at) },
	} {
		for _, steps := range [][]int64{{4}, {4, 5}} { // with the last, the run is thrown back to step 5
			if form == ".jsonl" && len(steps) > 1 {
				continue
			}
			path := filepath.Join(t.TempDir(), "copy"+form)
			r := newTeller("one")
			r.writes(t, path, 2, 1, 2, 3)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			r.writes(t, path, 2, steps...)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damage(data, info.Size())
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			r.writes(t, path, 1, 5)
			if got := r.said(); !strings.Contains(got, "of steps 4 there is nothing, or not all; it is moved to copy"+form+".1, and") {
				t.Errorf("%s, with steps %v: said %q", form, steps, got)
			}
			if got, err := os.ReadFile(path + ".1"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: moved aside are %d bytes, %v; want the %d that there were", form, len(got), err, len(data))
			}
			if got := written(t, path); got != "5.0" {
				t.Errorf("%s: it has %s", form, got)
			}
		}
	}
}

func TestSpans(t *testing.T) {
	var s spans
	for _, step := range []int64{1, 1, 2, 5, 7, 9, 11, 13, 14} {
		s = s.and(step)
	}
	if got, want := s.String(), "1 to 2, 5, 7, 9, 11, others up to 14"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := s.those(func(step int64) bool { return step == 2 || step > 12 }).String(); got != "2, 13 to 14" {
		t.Errorf("%s", got)
	}
}
