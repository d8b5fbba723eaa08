// Package harness runs our programs as a user would, in processes of their own, for tests
// that need whole servers.
//
// The test binary is also each program: an environment variable makes it run the
// command line, or an etcd, instead of the tests. So one build is enough, and the
// race detector sees the servers, too.
//
//	test binary (tests) --start--> test binary (millrace serve) --> embedded etcd
//	                    --start--> test binary (etcd, or a member of an etcd cluster)
//
// A test package calls Main from its TestMain, then Start for each server. All
// processes are killed when the test ends. The package is not for tests of one
// package, which need no process.
package harness

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"
)

// roleVariable is the environment variable that makes the test binary run the command line.
const roleVariable = "MILLRACE_TEST_RUN_COMMAND"

// parallelFlag is the flag -parallel of test binaries.
const parallelFlag = "test.parallel"

// AsProgram is the entry of the environment with which a test binary runs the command line.
const AsProgram = roleVariable + "=1"

// ProgramVariable is the environment variable with the program that Command starts instead of
// the test binary: another build of millrace.
const ProgramVariable = "MILLRACE_TEST_PROGRAM"

// noKubeconfig hides the developer's own kubeconfig from our processes.
const noKubeconfig = "KUBECONFIG="

// parallelTests is the number of parallel tests of a package that run at once, unless -parallel
// is given. Tests of whole servers mostly wait: for timeouts, for caches, for other processes.
const parallelTests = 4

// Main runs the tests of a package, or the program if the environment says so.
func Main(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(runProgram())
	}
	if spec := os.Getenv(EtcdVariable); spec != "" {
		os.Exit(runEtcd(spec))
	}
	if spec := os.Getenv(memberVariable); spec != "" {
		os.Exit(runMember(spec))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		_ = flag.Set(parallelFlag, strconv.Itoa(parallelTests)) // package testing has the flag
	}
	removeAbandoned()
	os.Exit(m.Run())
}

const (
	// readyTimeout is long, because the race detector makes a start several times slower.
	readyTimeout = 3 * time.Minute
	runTimeout   = 2 * time.Minute
)
