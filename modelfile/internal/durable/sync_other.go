//go:build !unix

package durable

// syncDir does nothing: directories cannot be synced here, and renames are journalled.
func syncDir(string) error { return nil }
