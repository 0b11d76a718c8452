package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// Run is who writes an archive.
type Run struct {
	Name string       // tells it from every other: project, group and name, and a word that is its directory's alone
	Dir  string       // its directory, for people
	Say  func(string) // told what was moved, and which steps are missing
}

// owned is an archive that is a file or a directory, beside which stands whose it is. That of another run is moved aside, and is where that run looks for it.
type owned struct {
	path   string
	run    Run
	as     layout // nil before it is locked
	unlock func()
	mine   bool // it was claimed
	record record
}

// layout is how a file is written, or a directory.
type layout interface {
	// look finds what stays where a step is written next, of what had that many bytes at least.
	look(step, bytes int64) (found, error)
	// open removes the rest, or moves all of it aside where nothing else is in it.
	open() error
	// write adds a step, or more of the last one, and says how many bytes there are; 0 of a directory.
	write(step int64, exps []*trinity.Experience) (bytes int64, err error)
	close() error
}

// found is what there is before a step is written.
type found struct {
	whole       func(step int64) bool // whether one that stays is there as a whole
	stays, size int64                 // bytes that stay, and all; 0 of a directory
}

// record says whose an archive is, and what is in it.
type record struct {
	Run   string `json:"run"`
	Dir   string `json:"dir"`
	Steps spans  `json:"steps"`
	Bytes int64  `json:"bytes"` // that it had with the last of them, at least; 0 of a directory
}

// readRecord is that of the archive at path; one that is not there is nobody's.
func readRecord(path string) (r record, err error) {
	data, err := os.ReadFile(path + ownerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s%s: %w: remove it, and the archive counts as nobody's", path, ownerFile, err)
	}
	return r, nil
}

func (o *owned) save() error {
	data, err := json.Marshal(o.record)
	if err != nil {
		return err
	}
	return durable.WriteFile(o.path+ownerFile, data)
}

// claim locks the archive and makes what is at path this run's own: what it had written there, wherever that is now, or nothing.
func (o *owned) claim() error {
	if o.mine {
		return nil
	}
	if err := o.lock(); err != nil {
		return err
	}
	there, err := exists(o.path)
	if err != nil {
		return err
	}
	if o.record, err = readRecord(o.path); err != nil {
		return err
	}
	if o.record.Run != o.run.Name || !there {
		if err := o.take(there); err != nil {
			return err
		}
	}
	o.mine = true
	return nil
}

// take claims what is not simply there.
func (o *owned) take(there bool) error {
	elsewhere, err := o.elsewhere()
	if err != nil {
		return err
	}
	another := o.record.Run != o.run.Name && o.record.Run != ""
	switch {
	case there && (another || elsewhere != ""):
		err = o.aside()
	case another: // it was moved by somebody
		err = removeBeside(o.path)
	}
	if err != nil {
		return err
	}
	if elsewhere != "" {
		return o.back(elsewhere)
	}
	if o.record.Run != o.run.Name {
		o.record = record{Run: o.run.Name, Dir: o.run.Dir}
	}
	return nil
}

// elsewhere is where this run's archive is since another has had its place; "" if nowhere.
func (o *owned) elsewhere() (found string, err error) {
	entries, err := os.ReadDir(filepath.Dir(o.path))
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		behind, ok := strings.CutPrefix(e.Name(), filepath.Base(o.path)+".")
		number, record := strings.CutSuffix(behind, ownerFile)
		if _, err := strconv.Atoi(number); !ok || !record || err != nil {
			continue
		}
		path := o.path + "." + number
		r, err := readRecord(path)
		if err != nil {
			return "", err
		}
		if there, err := exists(path); err != nil || there && r.Run == o.run.Name {
			return path, err
		}
	}
	return "", nil
}

// aside makes room for this run.
func (o *owned) aside() error {
	to, err := freeName(o.path)
	if err != nil {
		return err
	}
	whose := "nobody's, as far as it says"
	if o.record.Run != "" {
		whose = fmt.Sprintf("of run %s in %s", o.record.Run, o.record.Dir)
	}
	o.run.Say(fmt.Sprintf("%s is %s: it is moved to %s", o.path, whose, filepath.Base(to)))
	return move(o.path, to)
}

// back brings this run's archive to its place again.
func (o *owned) back(from string) (err error) {
	o.run.Say(fmt.Sprintf("%s is this run's own: it is moved back from %s", o.path, filepath.Base(from)))
	if err := move(from, o.path); err != nil {
		return err
	}
	o.record, err = readRecord(o.path)
	return err
}

// open says which steps are missing of those that were written, and were not to be written again. Bytes that may be of theirs are not cut off.
func (o *owned) open(_ context.Context, step int64) error {
	if err := o.claim(); err != nil {
		return err
	}
	there, err := o.as.look(step, o.record.Bytes)
	if err != nil {
		return err
	}
	before := o.record.Steps.those(func(s int64) bool { return s < step })
	if missing := before.those(func(s int64) bool { return !there.whole(s) }); missing != nil {
		then := "the archive goes on"
		if there.stays < there.size {
			to, err := moveAside(o.path)
			if err != nil {
				return err
			}
			then = fmt.Sprintf("it is moved to %s, and the archive begins again", filepath.Base(to))
			if there, err = o.as.look(step, 0); err != nil {
				return err
			}
		}
		o.run.Say(fmt.Sprintf("%s was damaged, shortened or removed: of steps %s there is nothing, or not all; %s with step %d", o.path, missing, then, step))
	}
	o.record.Steps, o.record.Bytes = before.those(there.whole), min(there.stays, o.record.Bytes)
	if err := o.save(); err != nil {
		return err
	}
	return o.as.open()
}

func (o *owned) write(_ context.Context, step int64, exps []*trinity.Experience) (err error) {
	if o.record.Bytes, err = o.as.write(step, exps); err != nil {
		return err
	}
	o.record.Steps = o.record.Steps.and(step)
	return o.save()
}

// close gives the archive free.
func (o *owned) close() error {
	if o.as == nil {
		return nil
	}
	err := o.as.close()
	o.unlock()
	o.as, o.mine = nil, false
	return err
}
