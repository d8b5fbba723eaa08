package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ServerVariable is the environment variable that names the program of servers. The flag
// --millrace goes before it.
const ServerVariable = "MILLRACE_PROGRAM"

// serverName is the program that has the commands "serve", "replica", "etcd" and Kubernetes'
// components.
const serverName = "millrace"

// serverProgram finds the program of servers: the one that the user names, the one beside this
// program, or the one on the PATH.
func (o *Options) serverProgram() (string, error) {
	for _, given := range []string{o.millrace, os.Getenv(ServerVariable)} {
		if given == "" {
			continue
		}
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("--millrace: %w", err)
		}
		return path, nil
	}
	if own, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(own), serverName)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(serverName)
	if err != nil {
		return "", errors.New("there is no program millrace, neither beside this one nor on the PATH, to start servers of: build it with make build, or name it with --millrace")
	}
	return path, nil
}

// ownProgram is this program, whose commands "fill", "bench proxy" and "bench floor-server" run
// as children.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find executable: %w", err)
	}
	return path, nil
}
