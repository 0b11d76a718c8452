package environment

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// machine is a computer whose files are somewhere.
type machine struct {
	system  string
	shell   *shell
	folders []string // paths of folders that tasks name, by their last names
	files   []string
}

var (
	folderWords = strings.Fields("work music letters photos taxes recipes garden travel school archive drafts plans")
	fileWords   = strings.Fields("report budget notes invoice poem menu list diary memo score map contract essay letter schedule index")
)

// drawMachine draws a machine with seven folders, some within others, and twelve files.
func drawMachine(r *numpyRandom) *machine {
	m := &machine{shell: &shell{files: map[string]string{}, folders: map[string]bool{"/": true}}}
	s := m.shell
	switch r.below(3) {
	case 0:
		m.system, s.home = "Linux", "/home/ann"
	case 1:
		m.system, s.home = "macOS", "/Users/ann"
	default:
		m.system, s.home, s.windows = "Windows", "/Users/ann", true
	}
	s.here = s.home
	s.folders[path.Dir(s.home)], s.folders[s.home] = true, true
	inside := []string{s.home}
	for _, word := range drawWords(r, folderWords, 7) {
		p := path.Join(inside[r.below(uint32(len(inside)))], word)
		s.folders[p] = true
		inside, m.folders = append(inside, p), append(m.folders, p)
	}
	for i, word := range drawWords(r, fileWords, 12) {
		p := path.Join(inside[r.below(uint32(len(inside)))], word+".txt")
		s.files[p] = fmt.Sprintf("%s %d", word, i+1)
		m.files = append(m.files, p)
	}
	return m
}

// drawWords draws n different words.
func drawWords(r *numpyRandom, words []string, n int) []string {
	words = slices.Clone(words)
	for i := range n {
		k := i + r.below(uint32(len(words)-i))
		words[i], words[k] = words[k], words[i]
	}
	return words[:n]
}

// changes are the kinds of tasks. Each makes a change in s, and says it; the text is "" where it would
// change nothing.
var changes = map[string]func(s *shell, file, folder, fresh string) string{
	"copy": func(s *shell, file, folder, _ string) string {
		if s.copy(file, folder, false) != nil {
			return ""
		}
		return fmt.Sprintf("Copy the file %s into the folder %s.", path.Base(file), path.Base(folder))
	},
	"move": func(s *shell, file, folder, _ string) string {
		if s.copy(file, folder, true) != nil {
			return ""
		}
		return fmt.Sprintf("Move the file %s into the folder %s.", path.Base(file), path.Base(folder))
	},
	"delete": func(s *shell, file, _, _ string) string {
		if _, err := s.remove([]string{file}); err != nil {
			return ""
		}
		return fmt.Sprintf("Delete the file %s.", path.Base(file))
	},
	"rename": func(s *shell, file, _, fresh string) string {
		if s.copy(file, path.Join(path.Dir(file), fresh+".txt"), true) != nil {
			return ""
		}
		return fmt.Sprintf("Rename the file %s to %s.txt.", path.Base(file), fresh)
	},
	"folder": func(s *shell, _, folder, fresh string) string {
		if _, err := s.make([]string{path.Join(folder, fresh)}); err != nil {
			return ""
		}
		return fmt.Sprintf("Create the folder %s in the folder %s.", fresh, path.Base(folder))
	},
	"write": func(s *shell, _, folder, fresh string) string {
		s.files[path.Join(folder, fresh+".txt")] = "hello " + fresh
		return fmt.Sprintf("Write a file %s.txt with the words hello %s into the folder %s.", fresh, fresh, path.Base(folder))
	},
}

// change draws a change, of a kind if one is named, makes it in s, and says it.
func (m *machine) change(r *numpyRandom, kind string, s *shell) string {
	for {
		named := kind
		if named == "" {
			kinds := slices.Sorted(maps.Keys(changes))
			named = kinds[r.below(uint32(len(kinds)))]
		}
		file, folder := m.files[r.below(uint32(len(m.files)))], m.folders[r.below(uint32(len(m.folders)))]
		fresh := fmt.Sprint("new", r.between(1, 99))
		if text := changes[named](s, file, folder, fresh); text != "" {
			return text
		}
	}
}
