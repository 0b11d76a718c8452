package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// taskDir is a directory with a folder for each task: instruction.md, and what its workflow needs
// (task.toml, tests/). Its rows have the columns name (of the folder), path (absolute),
// instruction, and task_toml if there is such a file; all are text.
type taskDir struct {
	dir   string
	names []string
}

const instructionFile = "instruction.md"

// openTaskDir finds the tasks of a directory, in order of their names. It skips files and hidden
// folders; any other folder without an instruction is an error.
func openTaskDir(dir string) (shard, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	t := &taskDir{dir: dir}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !info.IsDir() { // a link to a folder is one
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name(), instructionFile)); err != nil {
			return nil, fmt.Errorf("dataset %s: every folder is a task: %w", dir, err)
		}
		t.names = append(t.names, e.Name())
	}
	if len(t.names) == 0 {
		return nil, fmt.Errorf("dataset %s: no folder in it has %s: storage_type task_dir wants one for each task", dir, instructionFile)
	}
	return t, nil
}

func (t *taskDir) len() int { return len(t.names) }

func (t *taskDir) where(i int) string { return filepath.Join(t.dir, t.names[i]) }

func (t *taskDir) folder(i int) string { return t.where(i) }

func (t *taskDir) row(i int) ([]byte, error) {
	path, err := filepath.Abs(t.where(i))
	if err != nil {
		return nil, err
	}
	row := map[string]string{"name": t.names[i], "path": path}
	for column, file := range map[string]string{"instruction": instructionFile, "task_toml": "task.toml"} {
		text, err := readText(filepath.Join(path, file))
		if column == "task_toml" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		row[column] = text
	}
	return json.Marshal(row)
}

// readText reads a text file that becomes part of a row.
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxRow {
		return "", fmt.Errorf("%s: %w", filepath.Base(path), errLong)
	}
	if err := checkRegular(info); err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = checkText(string(text))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return string(text), nil
}
