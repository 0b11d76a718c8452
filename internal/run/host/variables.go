package host

import (
	"errors"
	"os"
)

// variables are environment variables of this process as they were before; nil was none.
type variables map[string]*string

// set sets variables of explorer.env_vars in this process: plug-ins in Go read them there, and
// programs inherit them.
func (v variables) set(values map[string]string) error {
	for name, value := range values {
		v[name] = nil
		if before, ok := os.LookupEnv(name); ok {
			v[name] = &before
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (v variables) restore() error {
	var errs []error
	for name, before := range v {
		if before == nil {
			errs = append(errs, os.Unsetenv(name))
		} else {
			errs = append(errs, os.Setenv(name, *before))
		}
	}
	return errors.Join(errs...)
}
