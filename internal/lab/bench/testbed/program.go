package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ServerVariable is the environment variable that names the program of servers. The flag
// --millrace overrides it.
const ServerVariable = "MILLRACE_PROGRAM"

// serverName is the program that has the commands "serve", "replica", "etcd" and Kubernetes'
// components.
const serverName = "millrace"

// serverProgram returns the path of the servers' program. The user names it, else it is beside this
// program, else on the PATH.
func (o *Options) serverProgram() (string, error) {
	for _, name := range []string{o.millrace, os.Getenv(ServerVariable)} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
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
		return "", errors.New("there is no program millrace to start servers of, neither beside this program nor on the PATH: " +
			"build it with make build, or name it with --millrace")
	}
	return path, nil
}

// ownProgram returns the path of this program, whose commands "fill", "bench proxy" and
// "bench floor-server" run as children.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find executable: %w", err)
	}
	return path, nil
}
