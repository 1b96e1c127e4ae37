// SPDX-License-Identifier: Apache-2.0

package projected

const haveTmpfs = true
