// Command cmd is the tool of package counterpart for upgrades of Kubernetes.
//
//	go run ./internal/build/counterpart/cmd diff [-from v1.36.3] -to v1.37.2
//	go run ./internal/build/counterpart/cmd require -to v1.37.2
//	go run ./internal/build/counterpart/cmd accept
//
// diff prints what changed in the counterparts of our functions. require writes the
// versions that a release of Kubernetes requires into go.mod. accept writes the table of the
// counterparts with which our functions were compared. The Makefile has a target for each
// command. The tool runs in the module's root, and no program contains it.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/build/counterpart"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("give a command: accept, diff or require")
	}
	switch args[0] {
	case "accept":
		return accept()
	case "diff":
		return diff(args[1:])
	case "require":
		return require(args[1:])
	}
	return fmt.Errorf("there is no command %q: give accept, diff or require", args[0])
}

// accept runs the command "accept".
func accept() error {
	rows, err := counterpart.Accept(".")
	if err != nil {
		return err
	}
	fmt.Printf("%s has %d counterparts.\n", counterpart.TableFile, rows)
	return nil
}

// diff runs the command "diff".
func diff(args []string) error {
	flags := flag.NewFlagSet("diff", flag.ContinueOnError)
	fromVersion := flags.String("from", "", "version of Kubernetes with which ours were compared; the modules of go.mod if empty")
	toVersion := flags.String("to", "", "version of Kubernetes to compare with, such as v1.37.2")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *toVersion == "" {
		return errors.New("give the new version of Kubernetes: make upstream-diff TO=v1.37.2")
	}
	marks, err := counterpart.ReadMarks(".")
	if err != nil {
		return err
	}
	from, err := modules(*fromVersion)
	if err != nil {
		return err
	}
	to, err := modules(*toVersion)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	if err := counterpart.Compare(out, marks, from, to); err != nil {
		return err
	}
	if err := counterpart.CompareGates(out, from, to); err != nil {
		return err
	}
	return out.Flush()
}

// require runs the command "require".
func require(args []string) error {
	flags := flag.NewFlagSet("require", flag.ContinueOnError)
	toVersion := flags.String("to", "", "version of Kubernetes, such as v1.37.2")
	if err := flags.Parse(args); err != nil {
		return err
	}
	release, err := counterpart.Release(*toVersion)
	if err != nil {
		return err
	}
	changed, err := counterpart.Require(".", release)
	if err != nil {
		return err
	}
	fmt.Printf("go.mod requires %d other versions; run go mod tidy.\n", changed)
	return nil
}

// modules returns the modules of a version of Kubernetes, or of go.mod if version is "".
func modules(version string) (*counterpart.Modules, error) {
	if version == "" {
		return counterpart.RequiredModules(".")
	}
	return counterpart.Release(version)
}
