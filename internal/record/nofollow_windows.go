// SPDX-License-Identifier: Apache-2.0

package record

const noFollow = 0
