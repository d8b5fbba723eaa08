package datadir

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Report says what EnsureCredentials did.
type Report struct {
	// Written lists the files that were made or changed, in order. It is empty if all
	// were sound.
	Written []Change
	// Warnings are sentences about what works today but needs attention soon.
	Warnings []string
}

// Change is a file that was written, and the reason.
type Change struct {
	File   string
	Reason string
}

// plan collects the files to write. Nothing is written before every file has been
// judged, so an error leaves the directory as it was.
type plan struct {
	root     string
	now      time.Time
	writes   []write
	warnings []string
}

type write struct {
	file   string
	data   []byte
	mode   fs.FileMode
	reason string
}

// missing is the reason of a write whose file does not exist.
const missing = "missing"

// EnsureCredentials makes the credentials that are missing. It issues certificates
// again that expire soon or lack a name in hosts, and points the kubeconfigs at the
// server's address. It leaves all others as they are. A certificate that is issued
// again keeps its private key, so a crash between two files leaves a pair that fits.
//
// After ErrBadState, ErrInvalidHosts or ErrClosed nothing has been written. After any other
// error the call can be repeated.
func (d *Dir) EnsureCredentials(hosts Hosts) (Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.lock == nil {
		return Report{}, fmt.Errorf("ensure credentials: %w", ErrClosed)
	}
	endpoint, err := hosts.resolve()
	if err != nil {
		return Report{}, err
	}
	p := &plan{root: d.paths.Root, now: d.now()}
	if err := p.judgeAll(d.paths, endpoint); err != nil {
		return Report{}, err
	}
	report := Report{Warnings: p.warnings}
	if len(p.writes) == 0 {
		return report, nil
	}
	if err := os.MkdirAll(d.paths.PKI, dirMode); err != nil {
		return report, fmt.Errorf("create key directory: %w", err)
	}
	for _, w := range p.writes {
		if err := writeFile(w.file, w.data, w.mode); err != nil {
			return report, fmt.Errorf("write %s: %w", filepath.Base(w.file), err)
		}
		report.Written = append(report.Written, Change{File: w.file, Reason: w.reason})
	}
	return report, nil
}

// judgeAll judges every file and plans the writes.
func (p *plan) judgeAll(paths Paths, target endpoint) error {
	ca, err := p.loadAuthority(paths.CACert, paths.CAKey, "millrace-ca")
	if err != nil {
		return err
	}
	proxyCA, err := p.loadAuthority(paths.FrontProxyCACert, paths.FrontProxyCAKey, "millrace-front-proxy-ca")
	if err != nil {
		return err
	}
	serving := leafSpec{
		subject:  pkix.Name{CommonName: "kube-apiserver"},
		usage:    x509.ExtKeyUsageServerAuth,
		dnsNames: target.dnsNames,
		ips:      target.ips,
	}
	if err := p.ensurePair(ca, paths.ServingCert, paths.ServingKey, serving); err != nil {
		return err
	}
	proxyClient := clientSpec(pkix.Name{CommonName: "front-proxy-client"})
	if err := p.ensurePair(proxyCA, paths.FrontProxyClientCert, paths.FrontProxyClientKey, proxyClient); err != nil {
		return err
	}
	if err := p.ensureServiceAccountKeys(paths.ServiceAccountKey, paths.ServiceAccountPub); err != nil {
		return err
	}
	kubeconfigs := []struct {
		file string
		name pkix.Name
	}{
		{paths.AdminKubeconfig, pkix.Name{CommonName: "millrace-admin", Organization: []string{"system:masters"}}},
		{paths.ControllerManagerKubeconfig, pkix.Name{CommonName: "system:kube-controller-manager"}},
		{paths.SchedulerKubeconfig, pkix.Name{CommonName: "system:kube-scheduler"}},
	}
	for _, k := range kubeconfigs {
		if err := p.ensureKubeconfig(ca, k.file, target.server, clientSpec(k.name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) write(file string, data []byte, mode fs.FileMode, reason string) {
	p.writes = append(p.writes, write{file: file, data: data, mode: mode, reason: reason})
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// credentialFiles names what to remove so that the next start makes a new authority
// and everything that depends on it.
func (p *plan) credentialFiles() string {
	return filepath.Join(p.root, "pki") + " and " + filepath.Join(p.root, "*.kubeconfig")
}
