package sandbox

import (
	"errors"
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// versions are the configurations of Landlock by version of its interface, from 1.
var versions = []landlock.Config{landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8,
	landlock.V9, landlock.V10, landlock.V11}

// signalsScoped is the first version of Landlock's interface that bounds signals.
const signalsScoped = 6

// landlockVersion returns the version of Landlock's interface here.
func landlockVersion() (int, error) {
	version, err := ll.LandlockGetABIVersion()
	if err == nil && version < 1 {
		err = errors.New("the kernel has none")
	}
	return version, err
}

// restrictPaths lets this process read the system's files and those of the job, and write the work
// folder; nothing else, no TCP port, and no signal to other programs if Landlock knows these. A path
// that cannot be opened is an error: the library's best effort would restrict nothing then.
func (j *job) restrictPaths() error {
	version, err := landlockVersion()
	if err != nil {
		return err
	}
	read, write := slices.Clone(system), []string{j.Work}
	if j.With.Namespaces {
		read, write = append(read, "/proc", "/etc/passwd"), slices.Concat(writable, j.Folders) // of its own root directory
	}
	var rules []landlock.Rule
	add := func(path string, optional bool) error {
		info, err := os.Stat(path)
		switch {
		case err != nil && optional && errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path))
		default:
			rules = append(rules, landlock.ROFiles(path))
		}
		return nil
	}
	for _, path := range read {
		if err := add(path, true); err != nil {
			return err
		}
	}
	for _, r := range j.Read {
		path := r.Path
		if !j.With.Namespaces {
			path = r.Real
		}
		if err := add(path, false); err != nil {
			return err
		}
	}
	folders := landlock.RWDirs(write...)
	if version >= 2 {
		folders = folders.WithRefer() // files may move between folders
	}
	rules = append(rules, folders, landlock.RWFiles(devices[0]), landlock.ROFiles(devices[1:]...))
	return versions[min(version, len(versions))-1].Restrict(rules...)
}
