// Command vendored fetches the libraries of the studio's page: the files that page/vendor/vendor.json
// names, from the packages that it names. It runs in internal/serve/studio and needs npm.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

const vendorDir = "page/vendor"

// vendored is vendor.json.
type vendored struct {
	Packages []pack
}

type pack struct {
	Name, Version, SHA256 string
	Files                 []struct {
		From, To, SHA256 string
		Replace          map[string]string // texts of the file, such as names of modules that the page has elsewhere
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := fetch(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "vendored:", err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(vendorDir, "vendor.json"))
	if err != nil {
		return err
	}
	var list vendored
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("vendor.json: %w", err)
	}
	dir, err := os.MkdirTemp("", "vendored")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range list.Packages {
		if err := p.fetch(ctx, dir); err != nil {
			return fmt.Errorf("%s@%s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

// fetch writes the package's files into vendorDir if the archive and they have their checksums.
func (p pack) fetch(ctx context.Context, dir string) error {
	npm := exec.CommandContext(ctx, "npm", "pack", "--silent", p.Name+"@"+p.Version)
	npm.Dir, npm.Stderr = dir, os.Stderr
	name, err := npm.Output()
	if err != nil {
		return fmt.Errorf("npm pack: %w", err)
	}
	archive, err := os.ReadFile(filepath.Join(dir, filepath.Base(strings.TrimSpace(string(name)))))
	if err != nil {
		return err
	}
	if err := check(archive, p.SHA256); err != nil {
		return fmt.Errorf("the package: %w", err)
	}
	contents, err := extract(archive)
	if err != nil {
		return err
	}
	for _, f := range p.Files {
		data := contents["package/"+f.From]
		for from, to := range f.Replace {
			data = bytes.ReplaceAll(data, []byte(from), []byte(to))
		}
		if err := check(data, f.SHA256); err != nil {
			return fmt.Errorf("%s: %w", f.From, err)
		}
		if err := durable.WriteFile(filepath.Join(vendorDir, f.To), data); err != nil {
			return err
		}
	}
	return nil
}

func check(data []byte, want string) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("sha256 is %s, and vendor.json has %s", got, want)
	}
	return nil
}

// extract returns the files of an archive by name.
func extract(archive []byte) (map[string][]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for in := tar.NewReader(unzipped); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out[header.Name], err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
}
