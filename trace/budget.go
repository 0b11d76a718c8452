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
}

// files are the files of a trace that may be removed, the oldest first.
type files struct{ trained, spans []sized }

// filesOf lists the files of a trace. It leaves out those that vanish meanwhile.
func filesOf(dir string) (f files, err error) {
	steps, err := Steps(dir)
	if err != nil {
		return f, err
	}
	for _, step := range steps {
		path := StepFile(dir, step)
		if info, err := os.Stat(path); err == nil {
			f.trained = append(f.trained, sized{path, step, info.Size()})
		}
	}
	spans, err := linesIn(dir, spansPrefix)
	if err != nil {
		return f, err
	}
	for _, file := range spans {
		if info, err := os.Stat(file.path); err == nil {
			f.spans = append(f.spans, sized{file.path, 0, info.Size()})
		}
	}
	return f, nil
}

// over returns the files to remove so that the others have at most this many bytes together. Spans may
// take a quarter of it; of them the oldest go. Of the train steps, every second one goes, from the
// oldest on, then three of four, and so on; the newest stays.
func (f files) over(limit int64) (paths []string) {
	for bytes := sum(f.spans); len(f.spans) > 1 && bytes > limit/4; f.spans = f.spans[1:] {
		paths = append(paths, f.spans[0].path)
		bytes -= f.spans[0].bytes
	}
	left, bytes := f.trained, sum(f.trained)+sum(f.spans)
	for stride := int64(2); bytes > limit && len(left) > 1; stride *= 2 {
		newest := left[len(left)-1].step
		left = slices.DeleteFunc(slices.Clone(left), func(s sized) bool {
			gone := bytes > limit && s.step%stride != 0 && s.step != newest
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

func sum(files []sized) (bytes int64) {
	for _, s := range files {
		bytes += s.bytes
	}
	return bytes
}
