package trace

import (
	"os"
	"slices"
)

// sized is a file of a trace.
type sized struct {
	path  string
	step  int64 // of a file of a train step
	bytes int64
	last  bool // of a file of lines: its process may be writing it
}

// files are the files of a trace that may be removed, the oldest first.
type files struct{ trained, lines, evaluated []sized }

// filesOf lists the files of a trace. It leaves out those that vanish meanwhile.
func filesOf(dir string) (f files, err error) {
	steps, err := Steps(dir)
	if err != nil {
		return f, err
	}
	for _, step := range steps {
		path := StepFile(dir, step)
		if info, err := os.Stat(path); err == nil {
			f.trained = append(f.trained, sized{path: path, step: step, bytes: info.Size()})
		}
	}
	evaluations, err := Evaluations(dir)
	if err != nil {
		return f, err
	}
	for _, e := range evaluations {
		if info, err := os.Stat(e.Path); err == nil {
			f.evaluated = append(f.evaluated, sized{path: e.Path, step: e.Step, bytes: info.Size()})
		}
	}
	for _, prefix := range []string{spansPrefix, failedPrefix} {
		all, err := linesIn(dir, prefix)
		if err != nil {
			return f, err
		}
		for i, file := range all {
			if info, err := os.Stat(file.path); err == nil {
				last := i+1 == len(all) || all[i+1].process != file.process
				f.lines = append(f.lines, sized{path: file.path, bytes: info.Size(), last: last})
			}
		}
	}
	return f, nil
}

// over returns the files to remove so that the others have at most this many bytes together. Lines may
// take a quarter of it; of them the oldest go, but not the last of a process. Evaluations may take another quarter;
// of them every second one goes, from the oldest on, as often as it takes, but neither the first nor the newest. Of the
// train steps, of which one of every is kept, every second one goes, from the oldest on, then three of four, and so
// on; the newest stays.
func (f files) over(limit, every int64) (paths []string) {
	lines := sum(f.lines)
	for _, s := range f.lines {
		if lines > limit/4 && !s.last {
			paths = append(paths, s.path)
			lines -= s.bytes
		}
	}
	evaluated, gone := thinned(f.evaluated, limit/4)
	paths = append(paths, gone...)
	left, bytes := f.trained, sum(f.trained)+min(lines, limit/4)+evaluated
	for stride := int64(2); bytes > limit && len(left) > 1; stride *= 2 {
		newest := left[len(left)-1].step
		left = slices.DeleteFunc(slices.Clone(left), func(s sized) bool {
			gone := bytes > limit && (s.step-1)/every%stride != 0 && s.step != newest
			if gone {
				paths = append(paths, s.path)
				bytes -= s.bytes
			}
			return gone
		})
		if stride > newest {
			break
		}
	}
	return paths
}

// thinned returns which evaluations to remove, so that the others have at most this many bytes if that can be, and how
// many bytes these have.
func thinned(left []sized, limit int64) (bytes int64, paths []string) {
	for bytes = sum(left); bytes > limit && len(left) > 2; {
		var kept []sized
		for i, s := range left {
			if bytes > limit && i%2 == 1 && i+1 < len(left) {
				paths = append(paths, s.path)
				bytes -= s.bytes
			} else {
				kept = append(kept, s)
			}
		}
		left = kept
	}
	return bytes, paths
}

func sum(files []sized) (bytes int64) {
	for _, s := range files {
		bytes += s.bytes
	}
	return bytes
}
