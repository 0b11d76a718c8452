package sandbox

import (
	"os"
	"path/filepath"
)

// writeFiles writes the program's files into its work folder. Only this process writes there yet.
func writeFiles(work string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}
