package kube

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Version is the version of Kubernetes, as /version reports it.
func Version() string { return version.Get().GitVersion }

// NewControllerManagerCommand makes the command kube-controller-manager.
func NewControllerManagerCommand() *cobra.Command {
	return controllermanager.NewControllerManagerCommand()
}

// NewSchedulerCommand makes the command kube-scheduler.
func NewSchedulerCommand() *cobra.Command { return scheduler.NewSchedulerCommand() }
